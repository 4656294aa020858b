//! The static files of the pages. The hash of its content names each file, so that browsers cache it for a year and a
//! new page never runs the script of an earlier version.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use ring::digest;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::PathParams;
use std::io::Write;
use std::sync::LazyLock;

const FOLDER: &str = "static/";

/// The hexadecimal digits of the hash in a name.
const DIGITS: usize = 16;

struct Asset {
    /// The name in the source and in templates.
    name: &'static str,
    kind: &'static str,
    body: &'static str,
    /// True if clients request the file by its name, so that the name must not change.
    is_fixed: bool,
}

const fn of(name: &'static str, kind: &'static str, body: &'static str) -> Asset {
    Asset { name, kind, body, is_fixed: false }
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const ASSETS: &[Asset] = &[
    of("app.css", CSS, include_str!("../static/app.css")),
    of("app.js", SCRIPT, include_str!("../static/app.js")),
    of("icon.svg", SVG, include_str!("../static/icon.svg")),
    of("icons.svg", SVG, include_str!("../static/icons.svg")),
    of("live.js", SCRIPT, include_str!("../static/live.js")),
    of("passkeys.js", SCRIPT, include_str!("../static/passkeys.js")),
    of("register.js", SCRIPT, include_str!("../static/register.js")),
    of("solver.js", SCRIPT, include_str!("../static/solver.js")),
    Asset {
        name: "webhook-vectors.json",
        kind: "application/json",
        body: include_str!("../../../docs/webhook-vectors.json"),
        is_fixed: true,
    },
];

struct Served {
    asset: &'static Asset,
    address: String,
    hash: String,
    gzip: Option<Bytes>,
}

static SERVED: LazyLock<Vec<Served>> = LazyLock::new(|| ASSETS.iter().map(served).collect());

fn served(asset: &'static Asset) -> Served {
    let hash = hex::encode(digest::digest(&digest::SHA256, asset.body.as_bytes()));
    let address = match asset.name.rsplit_once('.') {
        Some((stem, ending)) if !asset.is_fixed => format!("{FOLDER}{stem}.{}.{ending}", &hash[..DIGITS]),
        _ => format!("{FOLDER}{}", asset.name),
    };
    Served { asset, address, gzip: compressed(asset.body), hash }
}

fn compressed(body: &str) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body.as_bytes()).ok()?;
    let gzip = encoder.finish().ok()?;
    (gzip.len() < body.len()).then(|| gzip.into())
}

/// Returns the address of the file `name`, below the root of the pages.
pub(super) fn address(name: &str) -> Option<&'static str> {
    SERVED.iter().find(|served| served.asset.name == name).map(|served| served.address.as_str())
}

pub(crate) async fn get(PathParams(name): PathParams<String>, headers: HeaderMap) -> Response {
    let found = SERVED.iter().find(|served| served.address.strip_prefix(FOLDER) == Some(&name));
    let Some(Served { asset, hash, gzip, .. }) = found else {
        return ActionError::NotFound("path").into_response();
    };
    let tag = format!("\"{}\"", &hash[..32]);
    let cache_control = cache_control(asset);
    let head = [(ETAG, tag.as_str()), (CACHE_CONTROL, cache_control), (VARY, "accept-encoding")];
    if values(&headers, IF_NONE_MATCH).any(|known| known.trim_start_matches("W/") == tag) {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    match gzip {
        Some(gzip) if takes_gzip(&headers) => {
            (head, [(CONTENT_TYPE, asset.kind), (CONTENT_ENCODING, "gzip")], gzip.clone()).into_response()
        }
        _ => (head, [(CONTENT_TYPE, asset.kind)], asset.body).into_response(),
    }
}

/// Returns the `Cache-Control` value: unlimited caching for a file that is named by its hash.
fn cache_control(asset: &Asset) -> &'static str {
    if asset.is_fixed { "no-cache" } else { "public, max-age=31536000, immutable" }
}

/// Returns the values of a header that is a list.
fn values(headers: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &str> {
    let texts = headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    texts.flat_map(|text| text.split(',').map(str::trim))
}

/// Reports whether the client accepts gzip; the weight zero means that it does not.
fn takes_gzip(headers: &HeaderMap) -> bool {
    values(headers, ACCEPT_ENCODING).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches("q=");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse::<f32>().is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_changes_with_the_content_of_the_file() {
        let css = address("app.css").unwrap();
        assert!(css.starts_with("static/app.") && css.ends_with(".css"), "{css}");
        let changed = Asset { body: "other", ..of("app.css", CSS, "") };
        assert_ne!(served(Box::leak(Box::new(changed))).address, css);
        assert_eq!(address("webhook-vectors.json"), Some("static/webhook-vectors.json"), "documents name it");
        assert_eq!(address("other.css"), None);
    }

    #[test]
    fn clients_that_accept_gzip_get_gzip() {
        for (given, is_taken) in [
            ("gzip, deflate, br", true),
            ("GZIP", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(given))]);
            assert_eq!(takes_gzip(&headers), is_taken, "{given}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}

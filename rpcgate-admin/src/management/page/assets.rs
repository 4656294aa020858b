//! The static files of the pages.

use crate::management::error::ActionError;
use crate::management::extract::PathParams;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH};
use ring::digest;

struct Asset {
    name: &'static str,
    kind: &'static str,
    body: &'static str,
}

const ASSETS: [Asset; 4] = [
    Asset { name: "icon.svg", kind: "image/svg+xml", body: include_str!("../../../static/icon.svg") },
    Asset {
        name: "page.css",
        kind: "text/css; charset=utf-8",
        body: include_str!("../../../static/page.css"),
    },
    Asset {
        name: "register.js",
        kind: "text/javascript; charset=utf-8",
        body: include_str!("../../../static/register.js"),
    },
    Asset {
        name: "webhook-vectors.json",
        kind: "application/json",
        body: include_str!("../../../../docs/webhook-vectors.json"),
    },
];

/// Serves a file. A browser revalidates its copy each time: after an update, a new page must not run the previous
/// script.
pub(crate) async fn get(PathParams(name): PathParams<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return ActionError::NotFound("path").into_response();
    };
    let hash = hex::encode(digest::digest(&digest::SHA256, asset.body.as_bytes()));
    let tag = format!("\"{}\"", &hash[..32]);
    let known = headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|known| known.to_str().ok());
    let head = [(ETAG, tag.as_str()), (CACHE_CONTROL, "no-cache")];
    if known.flat_map(|known| known.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag) {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, [(CONTENT_TYPE, asset.kind)], asset.body).into_response()
}

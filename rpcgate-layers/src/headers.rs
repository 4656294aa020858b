//! The names and values of the headers that the gateway writes.

pub(crate) mod metered;

pub use metered::{Metered, plain};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::HeadConsistency;
use rpcgate_core::window::Windows;

/// The request id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The Compute Units charged for all calls of a request.
pub const COMPUTE_UNITS: HeaderName = HeaderName::from_static("x-compute-units");
/// `HIT` if every answer was in the cache before the request arrived.
pub const CACHE: HeaderName = HeaderName::from_static("x-cache");

/// The height that the client has seen. Only nodes known to have reached it answer.
pub const CONSISTENCY: HeaderName = HeaderName::from_static("x-rpcgate-consistency");
/// The height that all answering nodes are known to have reached, for requests with [`CONSISTENCY`].
pub const HEAD: HeaderName = HeaderName::from_static("x-rpcgate-head");

const RATE: [HeaderName; 9] = [
    HeaderName::from_static("x-ratelimit-limit-minute"),
    HeaderName::from_static("x-ratelimit-remaining-minute"),
    HeaderName::from_static("x-ratelimit-limit-hour"),
    HeaderName::from_static("x-ratelimit-remaining-hour"),
    HeaderName::from_static("x-ratelimit-limit-day"),
    HeaderName::from_static("x-ratelimit-remaining-day"),
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// The response headers that a browser script may read (`Access-Control-Expose-Headers`).
pub const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, x-compute-units, x-cache, retry-after, x-ratelimit-limit-minute, x-ratelimit-remaining-minute, \
     x-ratelimit-limit-hour, x-ratelimit-remaining-hour, x-ratelimit-limit-day, x-ratelimit-remaining-day, \
     ratelimit-limit, ratelimit-remaining, ratelimit-reset, x-rpcgate-head",
);

/// Reads [`CONSISTENCY`].
///
/// # Errors
/// Returns [`Refusal::InvalidRequest`] if the value is not a height, or if the header is repeated.
pub fn consistency(headers: &HeaderMap) -> Result<Option<HeadConsistency>, Refusal> {
    let mut values = headers.get_all(CONSISTENCY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::InvalidRequest);
    }
    let height = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let least = height.and_then(|text| text.parse().ok()).ok_or(Refusal::InvalidRequest)?;
    Ok(Some(HeadConsistency { least, shown: None }))
}

/// Returns the numbers of the nine rate headers, in order. The three short headers describe the tightest window.
fn rates(windows: &Windows) -> [u64; 9] {
    let tightest = windows.tightest();
    [
        windows.minute.limit,
        windows.minute.remaining,
        windows.hour.limit,
        windows.hour.remaining,
        windows.day.limit,
        windows.day.remaining,
        tightest.limit,
        tightest.remaining,
        tightest.reset,
    ]
}

/// Writes the nine rate headers.
pub fn write_rates(windows: &Windows, headers: &mut HeaderMap) {
    for (name, number) in RATE.into_iter().zip(rates(windows)) {
        headers.insert(name, HeaderValue::from(number));
    }
}

/// Returns [`EXPOSED`] and the names of `own`, the node's headers that pass; `None` if there are no such names.
pub(crate) fn exposed_with(own: &HeaderMap) -> Option<HeaderValue> {
    let mut names = own.keys().filter(|name| *name != CONTENT_TYPE).map(HeaderName::as_str).peekable();
    names.peek()?;
    let mut all = EXPOSED.to_str().unwrap_or_default().to_owned();
    for name in names {
        all.push_str(", ");
        all.push_str(name);
    }
    HeaderValue::try_from(all).ok()
}

/// Reports whether a node's header is dropped on every chain. Dropped are headers of one connection (RFC 9110, section
/// 7.6.1), headers about the node's host (caching, security policy, redirects), headers that reveal details of the
/// node, and headers that the gateway writes itself.
pub fn stays_behind(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "content-length"
            | "content-encoding"
            | "content-type"
            | "set-cookie"
            | "server"
            | "via"
            | "x-powered-by"
            | "date"
            | "vary"
            | "age"
            | "expires"
            | "pragma"
            | "cache-control"
            | "clear-site-data"
            | "strict-transport-security"
            | "expect-ct"
            | "public-key-pins"
            | "content-security-policy"
            | "content-security-policy-report-only"
            | "permissions-policy"
            | "referrer-policy"
            | "nel"
            | "report-to"
            | "reporting-endpoints"
            | "alt-svc"
            | "location"
            | "content-location"
            | "refresh"
            | "link"
            | "retry-after"
            | "allow"
            | "www-authenticate"
            | "x-request-id"
            | "x-compute-units"
            | "x-cache"
            | "x-rpcgate-head"
    ) || name.starts_with("access-control-")
        || name.starts_with("x-ratelimit-")
        || name.starts_with("ratelimit-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::clock::Time;
    use rpcgate_core::plan::{Plan, Tier};

    #[test]
    fn the_nine_rate_headers() {
        let mut headers = HeaderMap::new();
        write_rates(&Windows::of(&Plan::of(Tier::Free), [3, 499, 499], Time::from_secs(70)), &mut headers);
        let read = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(headers.len(), 9);
        assert_eq!(
            (read("x-ratelimit-limit-minute"), read("x-ratelimit-remaining-minute")),
            ("10".into(), "7".into())
        );
        assert_eq!(
            (read("x-ratelimit-limit-hour"), read("x-ratelimit-remaining-hour")),
            ("500".into(), "1".into())
        );
        assert_eq!(
            (read("x-ratelimit-limit-day"), read("x-ratelimit-remaining-day")),
            ("10000".into(), "9501".into())
        );
        assert_eq!((read("ratelimit-limit"), read("ratelimit-remaining")), ("500".into(), "1".into()));
        assert_eq!(read("ratelimit-reset"), "3530");
    }

    #[test]
    fn every_answer_has_its_own_numbers() {
        let rates = |used: u64| {
            let mut headers = HeaderMap::new();
            write_rates(&Windows::of(&Plan::of(Tier::Free), [used; 3], Time::from_secs(0)), &mut headers);
            headers["x-ratelimit-remaining-minute"].to_str().unwrap().to_owned()
        };
        assert_eq!([rates(1), rates(1), rates(2), rates(1)], ["9", "9", "8", "9"]);
    }

    #[test]
    fn a_height_is_digits_alone() {
        let read = |value: &'static str| {
            let value = http::HeaderValue::from_static(value);
            consistency(&[(CONSISTENCY, value)].into_iter().collect())
                .map(|found| found.map(|found| found.least))
        };
        assert_eq!((read("0"), read("18446744073709551615")), (Ok(Some(0)), Ok(Some(u64::MAX))));
        for bad in ["", "-1", "+1", "0x10", "18446744073709551616", "latest", "1 2"] {
            assert_eq!(read(bad), Err(Refusal::InvalidRequest), "{bad}");
        }
        assert_eq!(consistency(&HeaderMap::new()), Ok(None));
        let mut twice = HeaderMap::new();
        twice.append(CONSISTENCY, http::HeaderValue::from_static("100"));
        twice.append(CONSISTENCY, http::HeaderValue::from_static("5"));
        assert_eq!(consistency(&twice), Err(Refusal::InvalidRequest));
    }

    // Shows (Nodes and cache).
    #[test]
    fn headers_of_a_node_that_do_not_reach_the_client() {
        for name in [
            "set-cookie",
            "server",
            "access-control-allow-origin",
            "transfer-encoding",
            "x-cache",
            "x-rpcgate-head",
            "strict-transport-security",
            "alt-svc",
            "cache-control",
            "location",
        ] {
            assert!(stays_behind(&HeaderName::from_static(name)), "{name}");
        }
        assert!(!stays_behind(&HeaderName::from_static("x-node-version")));
    }

    #[test]
    fn the_headers_of_a_node_are_exposed_after_those_of_the_gateway() {
        let mut own = HeaderMap::new();
        own.insert(CONTENT_TYPE, HeaderValue::from_static("a/b"));
        assert_eq!(exposed_with(&own), None);
        own.insert("x-chain-cursor", HeaderValue::from_static("1"));
        own.insert("x-height", HeaderValue::from_static("2"));
        let exposed = exposed_with(&own).unwrap();
        let names = exposed.to_str().unwrap().strip_prefix(EXPOSED.to_str().unwrap()).unwrap();
        assert_eq!(names, ", x-chain-cursor, x-height");
    }
}

//! Headers that belong to a connection or to the framing of a message, and not to its content.

use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;
use std::time::Duration;

/// Reports whether a header is hop-by-hop: RFC 9110 section 7.6.1, and two from older practice.
pub(in crate::transport) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

pub(super) fn is_framing(name: &HeaderName) -> bool {
    *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || *name == EXPECT
}

/// Reports whether the head of an answer shows the end of the body.
pub(super) fn is_framed(headers: &HeaderMap, declared: Option<u64>) -> bool {
    // Chunked is the only coding that marks its own end, and only as the last one.
    let chunked = || {
        let last = headers.get_all(TRANSFER_ENCODING).iter().next_back();
        let last = last.and_then(|value| value.to_str().ok()).and_then(|codings| codings.rsplit(',').next());
        last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
    };
    declared.is_some() || chunked()
}

/// Removes the headers of an answer that must not be forwarded. Returns the node's idle timeout, if it sends one.
pub(super) fn strip(headers: &mut HeaderMap, keep_length: bool) -> Option<Duration> {
    let mut removed: SmallVec<[HeaderName; 8]> = SmallVec::new();
    let mut timeout = None;
    for (name, value) in headers.iter() {
        if *name == CONNECTION {
            let named = value.to_str().unwrap_or_default().split(',').map(|token| token.trim().as_bytes());
            removed.extend(named.filter_map(|token| HeaderName::from_bytes(token).ok()));
        }
        if name.as_str() == "keep-alive" {
            timeout = value.to_str().ok().and_then(keep_alive).or(timeout);
        }
        if is_hop_by_hop(name) || *name == CONTENT_ENCODING || (*name == CONTENT_LENGTH && !keep_length) {
            removed.push(name.clone());
        }
    }
    for name in removed {
        headers.remove(name);
    }
    timeout
}

/// Returns the `timeout` of a `CacheDecision-Alive` header: RFC 2068 section 19.7.1.1, which servers still send.
fn keep_alive(value: &str) -> Option<Duration> {
    value.split(',').find_map(|part| {
        let (name, secs) = part.split_once('=')?;
        let secs = secs.trim().parse().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| Duration::from_secs(secs))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn headers_of_the_connection_and_those_it_names_do_not_pass() {
        let mut map = headers(&[
            ("connection", "Keep-Alive, X-Trace"),
            ("keep-alive", "timeout=5, max=100"),
            ("x-trace", "1"),
            ("transfer-encoding", "chunked"),
            ("trailer", "x"),
            ("content-encoding", "gzip"),
            ("content-length", "9"),
            ("content-type", "application/json"),
            ("etag", "e"),
        ]);
        assert_eq!(strip(&mut map, false), Some(Duration::from_secs(5)));
        let mut left: Vec<_> = map.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "etag"]);
    }

    #[test]
    fn an_unreadable_keep_alive_is_ignored() {
        for value in ["", "timeout", "timeout=x", "max=5"] {
            assert_eq!(keep_alive(value), None, "{value}");
        }
    }

    #[test]
    fn only_a_length_or_chunks_frame_a_body() {
        assert!(is_framed(&HeaderMap::new(), Some(0)));
        assert!(is_framed(&headers(&[("transfer-encoding", "gzip, Chunked")]), None));
        assert!(!is_framed(&headers(&[("transfer-encoding", "chunked, gzip")]), None));
        assert!(!is_framed(&HeaderMap::new(), None));
    }
}

//! What a node answers.

use super::body::NodeBody;
use super::node::{NodeIndex, is_hop_by_hop};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, StatusCode};
use smallvec::SmallVec;
use std::time::Duration;

/// A node's answer. Which statuses are answers and which are faults is for the caller to say.
#[derive(Debug)]
pub struct NodeAnswer {
    /// The node that gave it.
    pub node: NodeIndex,
    /// Its HTTP status; never an informational one.
    pub status: StatusCode,
    /// Its headers, without those that speak of the connection, of the length or of an encoding that was undone.
    /// The answer to a `HEAD` request keeps its `Content-Length`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: AnswerBody,
    /// Whether the node said how long the body is. If not, the body ends where the connection did, and only what is
    /// in it (a JSON text closed to its last bracket) can tell that it was not cut.
    pub framed: bool,
}

/// The body of an answer, decoded.
#[derive(Debug)]
pub enum AnswerBody {
    /// All of it: at most [`NodeRequest::collect`](super::NodeRequest::collect) bytes, or at most
    /// [`NodeRequest::largest`](super::NodeRequest::largest) if the node had compressed it.
    Whole(Bytes),
    /// More than was to be collected. To drop it closes the connection.
    Larger {
        /// How it begins: at least 16 KiB, or what was to be collected if that is less.
        prefix: Bytes,
        /// What follows.
        rest: Box<NodeBody>,
    },
}

/// Whether the length of the body is known from the head of the answer.
pub(super) fn is_framed(headers: &HeaderMap, declared: Option<u64>) -> bool {
    // Chunked is the only coding that ends by itself, and only as the last one.
    let chunked = || {
        let last = headers.get_all(TRANSFER_ENCODING).iter().next_back();
        let last = last.and_then(|value| value.to_str().ok()).and_then(|codings| codings.rsplit(',').next());
        last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
    };
    declared.is_some() || chunked()
}

/// Leaves only the headers that may pass. Gives back how long the node keeps the connection, if it says so.
pub(super) fn clean(headers: &mut HeaderMap, keep_length: bool) -> Option<Duration> {
    let mut doomed: SmallVec<[HeaderName; 8]> = SmallVec::new();
    let mut kept = None;
    for (name, value) in headers.iter() {
        if *name == CONNECTION {
            let named = value.to_str().unwrap_or_default().split(',').map(|token| token.trim().as_bytes());
            doomed.extend(named.filter_map(|token| HeaderName::from_bytes(token).ok()));
        }
        if name.as_str() == "keep-alive" {
            kept = value.to_str().ok().and_then(keep_alive).or(kept);
        }
        if is_hop_by_hop(name) || *name == CONTENT_ENCODING || (*name == CONTENT_LENGTH && !keep_length) {
            doomed.push(name.clone());
        }
    }
    for name in doomed {
        headers.remove(name);
    }
    kept
}

/// The `timeout` of a `Keep-Alive` header: RFC 2068 section 19.7.1.1, and what servers still send.
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
        assert_eq!(clean(&mut map, false), Some(Duration::from_secs(5)));
        let mut left: Vec<_> = map.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "etag"]);
    }

    #[test]
    fn a_keep_alive_that_cannot_be_read_says_nothing() {
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

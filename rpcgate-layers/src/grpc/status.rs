//! The status of a gRPC call, from a node or from the gateway.

use crate::nodes::transport_health::Verdict;
use crate::nodes::usefulness::MethodIndex;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rpcgate_core::adapter::Unserved;
use rpcgate_core::refusal::{BackendFailure, DeadlineExceeded, Refusal};
use std::fmt::Write;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The status of a successful call (google.rpc.Code).
pub(super) const OK: u8 = 0;
/// The status of a call whose client has disconnected.
pub(super) const CANCELLED: u8 = 1;
/// The status of a node that rejects the gateway's credentials, which only the operator can fix.
pub(super) const UNAUTHENTICATED: u8 = Refusal::InvalidKey.grpc();
/// The status of a node that cannot answer now; another node may.
pub(super) const UNAVAILABLE: u8 = BackendFailure.grpc();
/// The statuses of a node that is at a limit, that lacks the method, or that has an internal error.
const RESOURCE_EXHAUSTED: u8 = 8;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;
/// The first undefined status. It and all higher ones count as [`UNKNOWN`].
const NUMBERS: u8 = 17;
const UNKNOWN: u8 = 2;

/// The reason why the gateway ends a call itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Refused(Refusal),
    Failed,
    Late,
}

impl Ending {
    pub(super) const fn number(self) -> u8 {
        match self {
            Ending::Refused(refusal) => refusal.grpc(),
            Ending::Failed => BackendFailure.grpc(),
            Ending::Late => DeadlineExceeded.grpc(),
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Ending::Refused(refusal) => refusal.message(),
            Ending::Failed => BackendFailure.message(),
            Ending::Late => DeadlineExceeded.message(),
        }
    }

    pub(super) fn trailers(self, mut headers: HeaderMap) -> HeaderMap {
        headers.insert(STATUS, HeaderValue::from(u16::from(self.number())));
        if let Ok(message) = HeaderValue::try_from(escaped(self.message())) {
            headers.insert(MESSAGE, message);
        }
        headers
    }

    /// Adds to `headers` the headers of an answer without a body (gRPC, "PROTOCOL-HTTP2", Trailers-Only).
    pub(super) fn alone(self, mut headers: HeaderMap) -> HeaderMap {
        headers.insert(CONTENT_TYPE, GRPC);
        self.trailers(headers)
    }
}

/// Returns why a node with this status cannot serve the call now; `None` if the status is an answer.
pub(super) const fn unserved(status: u8) -> Option<Unserved> {
    match status {
        UNAVAILABLE | RESOURCE_EXHAUSTED => Some(Unserved::Node),
        UNIMPLEMENTED | INTERNAL => Some(Unserved::Method),
        _ => None,
    }
}

pub(super) fn verdict(status: u8, method: MethodIndex) -> Verdict {
    match unserved(status) {
        _ if status == OK => Verdict::Usable,
        // The caller may have invented the method.
        Some(_) if status == UNIMPLEMENTED && method == MethodIndex::OTHER => {
            Verdict::Unserved(Unserved::UnknownMethod)
        }
        Some(why) => Verdict::Unserved(why),
        None => Verdict::Neutral,
    }
}

/// Returns the status in a node's trailers, or `None`.
pub(super) fn of_node(trailers: &HeaderMap) -> Option<u8> {
    let text = trailers.get(STATUS)?.to_str().ok();
    Some(text.and_then(|text| text.parse().ok()).filter(|number| *number < NUMBERS).unwrap_or(UNKNOWN))
}

/// Reports whether the content type is gRPC: `application/grpc`, also with a message format or a parameter. gRPC-Web is
/// a different protocol.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let rest = value.get(..GRPC.len()).filter(|start| start.eq_ignore_ascii_case(GRPC.as_bytes()));
    rest.is_some_and(|_| matches!(value.get(GRPC.len()), None | Some(b'+' | b';' | b' ')))
}

/// Percent-escapes every byte that a status message may not contain (gRPC, "PROTOCOL-HTTP2", Percent-Encoded).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_status_and_an_escaped_message() {
        let headers = Ending::Refused(Refusal::Suspended).alone(HeaderMap::new());
        assert_eq!(headers["content-type"], "application/grpc");
        assert_eq!(headers["grpc-status"], "7");
        assert_eq!(headers["grpc-message"], "account suspended %E2%80%94 contact your administrator");
        let late = Ending::Late.trailers(HeaderMap::new());
        assert_eq!(
            (&late["grpc-status"], &late["grpc-message"]),
            (&"4".parse().unwrap(), &"deadline exceeded".parse().unwrap())
        );
        assert!(!late.contains_key("content-type"));
        assert_eq!(escaped("100 %\r\n"), "100 %25%0D%0A");
    }

    #[test]
    fn a_status_that_is_not_defined_is_unknown() {
        let read = |text: &str| {
            let mut trailers = HeaderMap::new();
            trailers.insert(STATUS, text.parse().unwrap());
            of_node(&trailers)
        };
        assert_eq!(
            (read("0"), read("16"), read("17"), read("x"), read("-1")),
            (Some(0), Some(16), Some(2), Some(2), Some(2))
        );
        assert_eq!(of_node(&HeaderMap::new()), None);
    }

    #[test]
    fn the_content_type_of_grpc_web_is_not_that_of_grpc() {
        for (text, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/gRPC;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grpcx", false),
            ("application/json", false),
        ] {
            let headers: HeaderMap = [(CONTENT_TYPE, text.parse().unwrap())].into_iter().collect();
            assert_eq!(is_grpc(&headers), expected, "{text}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}

//! The status of a gRPC call: what a node says of it, and how the gateway writes its own.

use crate::nodes::transport_health::Verdict;
use crate::nodes::usefulness::MethodPlace;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rpcgate_core::adapter::Unserved;
use rpcgate_core::refusal::{BackendFailure, DeadlineExceeded, Refusal};
use std::fmt::Write;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The number of a call that was answered as it should be (google.rpc.Code).
pub(super) const OK: u8 = 0;
/// The number of a call whose client has left.
pub(super) const CANCELLED: u8 = 1;
/// The number that means that a node serves no call of the gateway: its credentials are the operator's matter.
pub(super) const UNAUTHENTICATED: u8 = Refusal::InvalidKey.grpc();
/// The number that means that a node cannot answer now, and another may.
pub(super) const UNAVAILABLE: u8 = BackendFailure.grpc();
/// Numbers of a node that is at a limit, that lacks the method, and that has failed within.
const RESOURCE_EXHAUSTED: u8 = 8;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;
/// Numbers from this on are not defined, and count as [`UNKNOWN`].
const NUMBERS: u8 = 17;
const UNKNOWN: u8 = 2;

/// Why the gateway ends a call itself.
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

    /// Its trailers, among `headers`.
    pub(super) fn trailers(self, mut headers: HeaderMap) -> HeaderMap {
        headers.insert(STATUS, HeaderValue::from(u16::from(self.number())));
        if let Ok(message) = HeaderValue::try_from(escaped(self.message())) {
            headers.insert(MESSAGE, message);
        }
        headers
    }

    /// The headers of an answer that consists of them alone (gRPC, "PROTOCOL-HTTP2", Trailers-Only), among `headers`.
    pub(super) fn alone(self, mut headers: HeaderMap) -> HeaderMap {
        headers.insert(CONTENT_TYPE, GRPC);
        self.trailers(headers)
    }
}

/// Why a node with this status cannot serve the call now; `None` if the status is that of an answer.
pub(super) const fn unserved(status: u8) -> Option<Unserved> {
    match status {
        UNAVAILABLE | RESOURCE_EXHAUSTED => Some(Unserved::Node),
        UNIMPLEMENTED | INTERNAL => Some(Unserved::Method),
        _ => None,
    }
}

/// What a whole answer with this status says about its node.
pub(super) fn verdict(status: u8, method: MethodPlace) -> Verdict {
    match unserved(status) {
        _ if status == OK => Verdict::Usable,
        // Perhaps its caller has invented it.
        Some(_) if status == UNIMPLEMENTED && method == MethodPlace::OTHER => {
            Verdict::Unserved(Unserved::UnknownMethod)
        }
        Some(why) => Verdict::Unserved(why),
        None => Verdict::Neutral,
    }
}

/// The status that a node gives in its trailers; `None` if there is none.
pub(super) fn of_node(trailers: &HeaderMap) -> Option<u8> {
    let text = trailers.get(STATUS)?.to_str().ok();
    Some(text.and_then(|text| text.parse().ok()).filter(|number| *number < NUMBERS).unwrap_or(UNKNOWN))
}

/// Whether this is the content type of a gRPC call: `application/grpc`, also with the format of its messages or a parameter.
/// That of gRPC-Web, which has another framing, is none.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let rest = value.get(..GRPC.len()).filter(|start| start.eq_ignore_ascii_case(GRPC.as_bytes()));
    rest.is_some_and(|_| matches!(value.get(GRPC.len()), None | Some(b'+' | b';' | b' ')))
}

/// The text with every byte percent-escaped that may not be in the message of a status (gRPC, "PROTOCOL-HTTP2",
/// Percent-Encoded).
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

//! Hyper's own answers to heads that it cannot read.

use super::builtin;
use rpcgate_core::refusal::Refusal;

/// The beginning of all of hyper's own answers, and of some of ours.
const BEGIN: &[u8] = b"HTTP/1.1 4";

/// The text after the status in hyper's own answers, which have no body and no other header.
const AFTER_STATUS: &[u8] = b"\r\nconnection: close\r\ncontent-length: 0\r\ndate: ";

/// Returns the contract's answer instead of hyper's own one to an unreadable head; `None` for other bytes.
pub(super) fn replacement(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(BEGIN)?;
    let line = rest.iter().position(|byte| *byte == b'\r')?;
    let (status, rest) = rest.split_at(line);
    // The date has 29 characters.
    let is_all = rest.starts_with(AFTER_STATUS) && rest.len() == AFTER_STATUS.len() + 29 + 4;
    if !is_all {
        return None;
    }
    let refusal = match status.get(..2)? {
        b"31" => Refusal::HeadersTooLarge,
        b"14" => Refusal::UriTooLong,
        _ => Refusal::BadHead,
    };
    Some(builtin::over_the_wire(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Routes and bodies).
    #[test]
    fn only_answers_of_hypers_own_are_replaced() {
        let bare = |status| {
            format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
            )
        };
        for (status, word) in [
            ("431 Request Header Fields Too Large", "request headers too large"),
            ("414 URI Too Long", "URI too long"),
            ("400 Bad Request", "bad request"),
        ] {
            let reported = String::from_utf8(replacement(bare(status).as_bytes()).unwrap()).unwrap();
            assert!(reported.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{reported}");
            assert!(
                reported.contains("connection: close\r\n")
                    && reported.ends_with(&format!("{{\"message\":\"{word}\"}}")),
                "{reported}"
            );
        }
        let ours = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 9\r\n\r\n{\"a\":\"b\"}";
        for other in [bare("200 OK"), ours.into(), bare("404 Not Found") + "x", String::new()] {
            assert_eq!(replacement(other.as_bytes()), None, "{other}");
        }
    }
}

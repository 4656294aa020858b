//! What hyper does not tell of requests over HTTP/1, and what it says without asking.
//!
//! A request with both `Transfer-Encoding` and `Content-Length` may be one that another server on its way took for two
//! (RFC 9112, section 6.1). Hyper leaves the length out and goes by the encoding; here it is refused, as the contract wants.
//! So the beginning of what comes between two requests is kept until the service sees the request. A client that sends the
//! next request before the answer to the one before is served by hyper's rule, which closes the connection after it.

use super::builtin;
use rpcgate_core::refusal::Refusal;

/// Bytes that stay with a connection for its next head. Of more than these only what is of the head is kept, for to look for
/// its end costs more than to keep some of a body.
const USUAL: usize = 2 << 10;

/// A head as it came.
#[derive(Debug, Default)]
pub(super) struct HeadText(Vec<u8>);

impl HeadText {
    /// Some of a head came, of which no more than `most` bytes are read: its beginning, or what follows. Says whether there
    /// is something to forget.
    pub(super) fn push(&mut self, is_begin: bool, bytes: &[u8], most: usize) -> bool {
        if is_begin {
            self.0.clear();
        }
        let bytes = if bytes.len() > USUAL { up_to_its_end(bytes) } else { bytes };
        let rest = most.saturating_sub(self.0.len());
        self.0.extend_from_slice(bytes.get(..rest).unwrap_or(bytes));
        self.is_large()
    }

    fn is_large(&self) -> bool {
        self.0.capacity() > USUAL
    }

    /// Whether the request whose head it was says how long its body is.
    pub(super) fn has_length(&self) -> bool {
        let mut lines = self.0.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        // Empty lines may come before a request.
        let request = lines.by_ref().find(|line| !line.is_empty());
        request.is_some()
            && lines
                .take_while(|line| !line.is_empty())
                .filter_map(|line| line.split(|byte| *byte == b':').next())
                .any(|name| name.trim_ascii().eq_ignore_ascii_case(b"content-length"))
    }

    /// Its request is seen.
    pub(super) fn forget(&mut self) {
        if self.is_large() {
            self.0 = Vec::new();
        }
    }
}

/// A head without what follows it. One whose lines end otherwise keeps that: it is read line by line anyway.
fn up_to_its_end(bytes: &[u8]) -> &[u8] {
    const EMPTY: &[u8] = b"\n\r\n";
    // Empty lines may come before a request.
    let begin = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    let end = bytes.iter().skip(begin).zip(begin..).filter(|(byte, _)| **byte == b'\n');
    let mut end =
        end.map(|(_, at)| at).filter(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(EMPTY)));
    end.next().and_then(|at| bytes.get(..at + EMPTY.len())).unwrap_or(bytes)
}

/// What all heads of answers begin with that hyper gives by itself, and some of ours.
const ANSWER: &[u8] = b"HTTP/1.1 4";

/// What hyper's own are from their status on: they have no body and no other header.
const NOTHING: &[u8] = b"\r\nconnection: close\r\ncontent-length: 0\r\ndate: ";

/// The answer in the place of one that hyper is about to give by itself, to a head that it cannot read; none if these bytes
/// are anything else.
pub(super) fn in_words(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(ANSWER)?;
    let line = rest.iter().position(|byte| *byte == b'\r')?;
    let (status, rest) = rest.split_at(line);
    // The date has 29 characters.
    let is_all = rest.starts_with(NOTHING) && rest.len() == NOTHING.len() + 29 + 4;
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

    const MOST: usize = 40 << 10;

    fn has_length(pieces: &[&str]) -> bool {
        let mut text = HeadText::default();
        text.push(true, b"POST /before HTTP/1.1\r\ncontent-length: 5\r\n\r\n", MOST);
        for (at, piece) in pieces.iter().enumerate() {
            text.push(at == 0, piece.as_bytes(), MOST);
        }
        text.has_length()
    }

    #[test]
    fn a_length_is_found_however_it_is_written() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH:5\r\n\r\n",
            "\r\n\r\nPOST / HTTP/1.1\ncontent-length : 5\n\n",
        ] {
            assert!(has_length(&[head]), "{head}");
            let (one, other) = head.split_at(head.len() / 2);
            assert!(has_length(&[one, other]), "{head}");
        }
        for head in [
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\ncontent-length: 5\r\n",
            "POST /content-length: HTTP/1.1\r\nx: content-length: 5\r\n\r\n",
            "",
        ] {
            assert!(!has_length(&[head]), "{head}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_given_back() {
        let mut text = HeadText::default();
        for n in 0..10 {
            text.push(n == 0, &[b'x'; 8 << 10], MOST);
        }
        assert_eq!(text.0.len(), MOST);
        text.forget();
        assert_eq!(text.0.capacity(), 0);
        // Of a long body that came with its head nothing is kept.
        let head = b"\r\nPOST / HTTP/1.1\r\ncontent-length: 5000\r\n\r\n";
        text.push(true, &[&head[..], &[b'\n'; 5_000]].concat(), MOST);
        assert_eq!(text.0, head);
    }

    #[test]
    fn only_what_hyper_says_by_itself_is_put_in_words() {
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
            let told = String::from_utf8(in_words(bare(status).as_bytes()).unwrap()).unwrap();
            assert!(told.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{told}");
            assert!(
                told.contains("connection: close\r\n")
                    && told.ends_with(&format!("{{\"message\":\"{word}\"}}")),
                "{told}"
            );
        }
        let ours = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 9\r\n\r\n{\"a\":\"b\"}";
        for other in [bare("200 OK"), ours.into(), bare("404 Not Found") + "x", String::new()] {
            assert_eq!(in_words(other.as_bytes()), None, "{other}");
        }
    }
}

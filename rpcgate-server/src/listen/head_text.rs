//! The text of an HTTP/1 request head, stored to find requests that state their length twice.
//!
//! A request with both `Transfer-Encoding` and `Content-Length` may be two requests for another server on its way (RFC
//! 9112, section 6.1). Hyper drops the length and uses the encoding; the contract refuses such a request. So the
//! beginning of the bytes between two requests is stored until the service sees the request. If a client pipelines the
//! next request, hyper's rule applies to it, which closes the connection after the request.

/// The bytes that a connection keeps allocated for its next head. Of a longer read only the head is kept: finding its
/// end costs more than keeping a little of a body.
const USUAL: usize = 2 << 10;

#[derive(Debug, Default)]
pub(super) struct HeadText(Vec<u8>);

impl HeadText {
    /// Appends a part of a head, up to `most` bytes in total. Returns whether [`forget`](Self::forget) frees memory.
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

    pub(super) fn has_length(&self) -> bool {
        let mut lines = self.0.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        // Empty lines may precede a request.
        let request = lines.by_ref().find(|line| !line.is_empty());
        request.is_some()
            && lines
                .take_while(|line| !line.is_empty())
                .filter_map(|line| line.split(|byte| *byte == b':').next())
                .any(|name| name.trim_ascii().eq_ignore_ascii_case(b"content-length"))
    }

    /// Frees the memory of a large head, once its request is seen.
    pub(super) fn forget(&mut self) {
        if self.is_large() {
            self.0 = Vec::new();
        }
    }
}

/// Returns a head without the bytes after it. Without CRLF they stay; the head is read line by line anyway.
fn up_to_its_end(bytes: &[u8]) -> &[u8] {
    const EMPTY: &[u8] = b"\n\r\n";
    // Empty lines may precede a request.
    let begin = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    let end = bytes.iter().skip(begin).zip(begin..).filter(|(byte, _)| **byte == b'\n');
    let mut end =
        end.map(|(_, at)| at).filter(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(EMPTY)));
    end.next().and_then(|at| bytes.get(..at + EMPTY.len())).unwrap_or(bytes)
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

    // Shows (Routes and bodies).
    #[test]
    fn a_length_is_found_in_every_spelling() {
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
    fn the_kept_text_is_bounded_and_freed() {
        let mut text = HeadText::default();
        for n in 0..10 {
            text.push(n == 0, &[b'x'; 8 << 10], MOST);
        }
        assert_eq!(text.0.len(), MOST);
        text.forget();
        assert_eq!(text.0.capacity(), 0);
        // Nothing is kept of a long body that arrived with its head.
        let head = b"\r\nPOST / HTTP/1.1\r\ncontent-length: 5000\r\n\r\n";
        text.push(true, &[&head[..], &[b'\n'; 5_000]].concat(), MOST);
        assert_eq!(text.0, head);
    }
}

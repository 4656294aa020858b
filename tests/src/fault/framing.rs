//! The start and end of HTTP/1 messages in a stream of bytes (RFC 9112, sections 2 and 6).
//!
//! Just enough for a proxy that misbehaves at a certain position: it trusts both sides, and treats everything after the
//! first bytes that are not HTTP/1 (TLS, HTTP/2, a database's protocol, frames after an upgrade) as opaque.

const MAX_HEAD: usize = 64 * 1024;

/// The sender of the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Requests: the first line ends with the version.
    TestClient,
    /// Replies: the first line starts with the version.
    Node,
}

/// The content of one piece of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Piece {
    /// Heads that ended in it, without those of interim replies (1xx).
    pub(super) heads: usize,
    /// Messages that ended in it.
    pub(super) ends: usize,
    /// Bytes in it that belong to heads.
    pub(super) head_bytes: usize,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    UntilClose,
    Opaque,
}

/// A reader of one direction of a connection.
#[derive(Debug)]
pub(super) struct Framing {
    side: Side,
    state: State,
    line: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
    keep: bool,
    bodiless: bool,
}

impl Framing {
    pub(super) fn new(side: Side) -> Self {
        Framing {
            side,
            state: State::Head,
            line: Vec::new(),
            head: Vec::new(),
            body: Vec::new(),
            keep: false,
            bodiless: false,
        }
    }

    /// Reports whether nothing of the next message has been seen.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Head) && self.line.is_empty()
    }

    /// Reports whether the stream is not HTTP/1, or no longer.
    pub(super) fn is_opaque(&self) -> bool {
        matches!(self.state, State::Opaque)
    }

    /// Reports whether the body lasts until its sender closes.
    pub(super) fn ends_with_the_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Gives up on reading the stream as HTTP/1.
    pub(super) fn give_up(&mut self) {
        self.state = State::Opaque;
    }

    /// Sets whether the next message's body is kept for [`Framing::take`], and whether it answers a HEAD request.
    pub(super) fn expect(&mut self, keep: bool, bodiless: bool) {
        self.keep = keep;
        self.bodiless = bodiless;
    }

    /// Returns the last message's request method or status code, empty before the first head.
    pub(super) fn label(&self) -> &[u8] {
        let mut words = self.head.split(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
        let skip = usize::from(self.side == Side::Node);
        words.nth(skip).unwrap_or_default()
    }

    /// Returns the head (with its empty line) and the decoded body of the message that ended last.
    pub(super) fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        (self.head.clone(), std::mem::take(&mut self.body))
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Piece {
        let mut piece = Piece::default();
        while !bytes.is_empty() {
            let used = match self.state {
                State::Opaque => bytes.len(),
                State::UntilClose => self.body_bytes(bytes, bytes.len()),
                State::Head => self.head_bytes(bytes, &mut piece),
                State::Length(left) => {
                    let used = self.body_bytes(bytes, most(left, bytes.len()));
                    self.state = State::Length(left - used as u64);
                    if left == used as u64 {
                        self.end(&mut piece);
                    }
                    used
                }
                State::ChunkData(left) => {
                    let used = self.body_bytes(bytes, most(left, bytes.len()));
                    self.state = match left - used as u64 {
                        0 => State::ChunkEnd,
                        left => State::ChunkData(left),
                    };
                    used
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => self.chunk_line(bytes, &mut piece),
            };
            bytes = &bytes[used..];
        }
        piece
    }

    fn body_bytes(&mut self, bytes: &[u8], used: usize) -> usize {
        if self.keep {
            self.body.extend_from_slice(&bytes[..used]);
        }
        used
    }

    fn head_bytes(&mut self, bytes: &[u8], piece: &mut Piece) -> usize {
        let mut used = 0;
        for &byte in bytes {
            used += 1;
            self.line.push(byte);
            if byte != b'\n' {
                continue;
            }
            let first = self.line.iter().position(|&byte| byte == b'\n') == Some(self.line.len() - 1);
            if first && !self.is_first_line() {
                self.give_up();
                return used;
            }
            if self.line.ends_with(b"\r\n\r\n") || self.line.ends_with(b"\n\n") {
                piece.head_bytes += used;
                self.head = std::mem::take(&mut self.line);
                self.body.clear();
                self.begin_body(piece);
                return used;
            }
        }
        let readable = self.line.len() <= MAX_HEAD && self.line.first().is_some_and(u8::is_ascii_uppercase);
        if readable {
            piece.head_bytes += used;
        } else {
            self.give_up();
        }
        used
    }

    fn is_first_line(&self) -> bool {
        let line = self.line.trim_ascii_end();
        match self.side {
            Side::TestClient => line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0"),
            Side::Node => line.starts_with(b"HTTP/1."),
        }
    }

    fn begin_body(&mut self, piece: &mut Piece) {
        let label = self.label().to_vec();
        if self.side == Side::Node && label == b"101" {
            piece.heads += 1;
            piece.ends += 1;
            self.give_up();
            return;
        }
        if self.side == Side::Node && label.starts_with(b"1") {
            return;
        }
        piece.heads += 1;
        let bare = self.side == Side::Node && (self.bodiless || label == b"204" || label == b"304");
        self.state = match (field(&self.head, "transfer-encoding"), field(&self.head, "content-length")) {
            _ if bare => State::Length(0),
            (Some(coding), _) if coding.to_ascii_lowercase().contains("chunked") => State::ChunkSize,
            (_, Some(length)) => length.parse().map_or(State::Opaque, State::Length),
            _ if self.side == Side::TestClient => State::Length(0),
            _ => State::UntilClose,
        };
        if matches!(self.state, State::Length(0)) {
            self.end(piece);
        }
    }

    fn chunk_line(&mut self, bytes: &[u8], piece: &mut Piece) -> usize {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(bytes.len(), |at| at + 1);
        self.line.extend_from_slice(&bytes[..used]);
        if end.is_none() {
            return used;
        }
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.trim_ascii());
        match self.state {
            State::ChunkEnd => self.state = State::ChunkSize,
            State::Trailer if text.is_empty() => self.end(piece),
            State::Trailer => {}
            _ => {
                let size = text.split(';').next().unwrap_or_default().trim();
                self.state = match u64::from_str_radix(size, 16) {
                    Ok(0) => State::Trailer,
                    Ok(size) => State::ChunkData(size),
                    Err(_) => State::Opaque,
                };
            }
        }
        used
    }

    fn end(&mut self, piece: &mut Piece) {
        piece.ends += 1;
        self.state = State::Head;
    }
}

fn most(left: u64, have: usize) -> usize {
    usize::try_from(left).map_or(have, |left| left.min(have))
}

/// Returns the value of the first header field of that name (given in lower case) in a head.
pub(super) fn field(head: &[u8], name: &str) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;x=1\r\nWiki\r\n0a\r\n0123456789\r\n0\r\nt: v\r\n\r\n";

    /// Feeds byte by byte, so that every possible end of a read occurs.
    fn drip(framing: &mut Framing, bytes: &[u8]) -> (usize, usize) {
        bytes.iter().fold((0, 0), |(heads, ends), byte| {
            let piece = framing.feed(std::slice::from_ref(byte));
            (heads + piece.heads, ends + piece.ends)
        })
    }

    #[test]
    fn a_message_ends_at_its_length() {
        let text = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\n\r\n";
        let mut framing = Framing::new(Side::TestClient);
        let piece = framing.feed(text);
        assert_eq!((piece.heads, piece.ends), (2, 2));
        assert_eq!(piece.head_bytes, text.len() - 3);
        assert_eq!(framing.label(), b"GET");
        assert!(framing.is_idle());

        let mut framing = Framing::new(Side::TestClient);
        assert_eq!(drip(&mut framing, text), (2, 2));
    }

    #[test]
    fn chunks_are_decoded_and_end_after_the_trailer() {
        for dripped in [false, true] {
            let mut framing = Framing::new(Side::Node);
            framing.expect(true, false);
            if dripped {
                assert_eq!(drip(&mut framing, &CHUNKED[..CHUNKED.len() - 1]), (1, 0));
                assert!(!framing.is_idle());
                assert_eq!(drip(&mut framing, &CHUNKED[CHUNKED.len() - 1..]), (0, 1));
            } else {
                assert_eq!(framing.feed(CHUNKED).ends, 1);
            }
            assert!(framing.is_idle());
            assert_eq!(framing.take().1, b"Wiki0123456789");
        }
    }

    #[test]
    fn interim_replies_are_not_the_reply() {
        let mut framing = Framing::new(Side::Node);
        assert_eq!(framing.feed(b"HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n").heads, 0);
        assert_eq!(framing.feed(b"HTTP/1.1 204 No Content\r\n\r\n").ends, 1);
        assert_eq!(framing.label(), b"204");
    }

    #[test]
    fn a_reply_to_head_has_no_body_and_one_without_length_lasts_until_the_close() {
        let mut framing = Framing::new(Side::Node);
        framing.expect(false, true);
        assert_eq!(framing.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").ends, 1);
        framing.expect(false, false);
        assert_eq!(framing.feed(b"HTTP/1.0 200 OK\r\n\r\nabc").ends, 0);
        assert!(framing.ends_with_the_connection());
    }

    #[test]
    fn bytes_that_are_not_http_1_are_opaque() {
        for text in
            [&b"\x16\x03\x01\x02\x00"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"*1\r\n", b"PING\r\n"]
        {
            let mut framing = Framing::new(Side::TestClient);
            framing.feed(text);
            assert!(framing.is_opaque(), "{text:?}");
        }
        let mut framing = Framing::new(Side::Node);
        framing.feed(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n\x81\x00");
        assert!(framing.is_opaque());
    }
}

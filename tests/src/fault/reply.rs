//! Replies that a correct node would not send, generated or changed from the real reply.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Interim replies of every kind that a node may send before the real one (RFC 9110, section 15.2; RFC 8297).
pub(super) const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n\
    HTTP/1.1 102 Processing\r\n\r\n\
    HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";

/// The number of bytes that [`overstated`] promises in addition to those that it has.
pub(super) const OVERSTATED_BY: usize = 64;

const FILL: usize = 64 * 1024;

/// Returns bytes in which no HTTP parser finds a status line. They are always the same, so that a failure repeats.
pub(super) fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes: Vec<u8> = (0..512)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect();
    bytes[0] = 0xff;
    bytes
}

/// Returns a complete 200 reply with this body, declared as JSON.
pub(super) fn ok(body: &[u8]) -> Vec<u8> {
    let mut reply = head("HTTP/1.1 200 OK", "content-type: application/json\r\n", body.len() as u64);
    reply.extend_from_slice(body);
    reply
}

/// Returns a complete 200 reply whose body starts like an answer and is neither JSON nor UTF-8.
pub(super) fn garbage_body() -> Vec<u8> {
    let mut body = br#"{"jsonrpc":"2.0","id":1,"result":"#.to_vec();
    body.extend(noise());
    body.push(b'}');
    ok(&body)
}

/// Returns the reply with a length above that of its body.
pub(super) fn overstated(real_head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut reply = relength(real_head, (body.len() + OVERSTATED_BY) as u64);
    reply.extend_from_slice(body);
    reply
}

/// The reply with a body of `size` bytes that is still valid JSON: an answer's result becomes a long string, anything
/// else is extended with spaces. Generated piece by piece, so that `size` may exceed the memory.
#[derive(Debug)]
pub(super) struct Oversized {
    pieces: [Bytes; 2],
    fill: u8,
    left: u64,
    at: usize,
}

impl Oversized {
    /// A body that is already longer keeps its length.
    pub(super) fn new(real_head: &[u8], body: &[u8], size: u64) -> Self {
        let (front, back, fill) = stretchable(body);
        let left = size.saturating_sub((front.len() + back.len()) as u64);
        let total = (front.len() + back.len()) as u64 + left;
        let mut first = relength(real_head, total);
        first.extend_from_slice(&front);
        Oversized { pieces: [first.into(), back.into()], fill, left, at: 0 }
    }
}

impl Iterator for Oversized {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.at == 1 && self.left > 0 {
            let size = usize::try_from(self.left).map_or(FILL, |left| left.min(FILL));
            self.left -= size as u64;
            return Some(vec![self.fill; size].into());
        }
        let piece = self.pieces.get_mut(self.at).map(std::mem::take);
        self.at += 1;
        piece
    }
}

/// Returns the front, the back, and the byte that may be repeated between them.
fn stretchable(body: &[u8]) -> (Vec<u8>, Vec<u8>, u8) {
    if let Ok(mut members) = serde_json::from_slice::<Map<String, Value>>(body)
        && members.remove("result").is_some()
    {
        let mut front = serde_json::to_vec(&members).unwrap_or_else(|_| b"{}".to_vec());
        front.pop();
        if !members.is_empty() {
            front.push(b',');
        }
        front.extend_from_slice(br#""result":""#);
        return (front, br#""}"#.to_vec(), b'a');
    }
    let (front, back) = body.split_at(body.len().saturating_sub(1));
    (front.to_vec(), back.to_vec(), b' ')
}

/// Returns the head with that length instead of its own framing.
fn relength(real_head: &[u8], length: u64) -> Vec<u8> {
    let text = String::from_utf8_lossy(real_head);
    let mut lines = text.lines();
    let status = lines.next().unwrap_or("HTTP/1.1 200 OK");
    let fields: String = lines
        .take_while(|line| !line.is_empty())
        .filter(|line| {
            let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
            name != "content-length" && name != "transfer-encoding"
        })
        .flat_map(|line| [line, "\r\n"])
        .collect();
    head(status, &fields, length)
}

fn head(status: &str, fields: &str, length: u64) -> Vec<u8> {
    format!("{status}\r\n{fields}content-length: {length}\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Node: 7\r\nTransfer-Encoding: chunked\r\n\r\n";

    fn stretched(body: &[u8], size: u64) -> (String, Vec<u8>) {
        let whole: Vec<u8> = Oversized::new(HEAD, body, size).flatten().collect();
        let end = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8(whole[..end].to_vec()).unwrap(), whole[end..].to_vec())
    }

    #[test]
    fn an_oversized_answer_is_valid_and_has_its_own_id() {
        let (head, body) = stretched(br#"{"jsonrpc":"2.0","id":"x","result":"0x1"}"#, 200_000);
        assert_eq!(head, "HTTP/1.1 200 OK\r\nX-Node: 7\r\ncontent-length: 200000\r\n\r\n");
        assert_eq!(body.len(), 200_000);
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["id"], "x");
        assert!(value["result"].as_str().unwrap().len() > 199_000);
    }

    #[test]
    fn an_oversized_body_of_another_kind_keeps_its_content() {
        let (_, body) = stretched(br#"[{"height":5}]"#, 1_000);
        assert_eq!(body.len(), 1_000);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), serde_json::json!([{"height": 5}]));
    }

    #[test]
    fn a_body_that_is_large_enough_keeps_its_length() {
        let (head, body) = stretched(b"[1,2]", 2);
        assert!(head.contains("content-length: 5\r\n"));
        assert_eq!(body, b"[1,2]");
    }

    #[test]
    fn an_overstated_reply_is_shorter_than_its_length() {
        let reply = String::from_utf8(overstated(HEAD, b"[1]")).unwrap();
        assert_eq!(reply, "HTTP/1.1 200 OK\r\nX-Node: 7\r\ncontent-length: 67\r\n\r\n[1]");
    }

    #[test]
    fn garbage_is_neither_http_nor_json() {
        assert!(!noise().starts_with(b"HTTP"));
        let reply = garbage_body();
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(serde_json::from_slice::<Value>(&reply[end..]).is_err());
    }
}

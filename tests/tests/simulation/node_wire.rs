//! HTTP at the node's end of a connection.

use crate::Duration;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

/// A connection from the node's side.
pub(crate) struct NodeWire {
    stream: DuplexStream,
    read: Vec<u8>,
}

impl NodeWire {
    pub(crate) fn new(stream: DuplexStream) -> Self {
        NodeWire { stream, read: Vec::new() }
    }

    /// Returns the calls of the next request, a single one or an array; `None` when the gateway has closed.
    pub(crate) async fn request(&mut self) -> Option<Value> {
        let head = loop {
            let end = self.read.windows(4).position(|four| four == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None if self.stream.read_buf(&mut self.read).await.ok()? == 0 => return None,
                None => {}
            }
        };
        let length = content_length(&self.read[..head]);
        while self.read.len() < head + length {
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
        let calls = serde_json::from_slice(&self.read[head..head + length]).unwrap();
        self.read.drain(..head + length);
        Some(calls)
    }

    /// Waits for `time`. Returns false if the gateway closes the connection before.
    pub(crate) async fn is_awaited_for(&mut self, time: Duration) -> bool {
        tokio::select! {
            biased;
            read = self.stream.read_buf(&mut self.read) => {
                assert!(!matches!(read, Ok(1..)), "the gateway sends one request at a time");
                false
            }
            () = sleep(time) => true,
        }
    }

    /// Writes an answer without the last `missing` bytes of its body.
    pub(crate) async fn answer(&mut self, status: u16, headers: &str, body: &str, missing: usize) {
        let head = format!("HTTP/1.1 {status} -\r\n{headers}content-length: {}\r\n\r\n", body.len());
        let whole = head + body;
        // The gateway may have closed.
        let _ = self.stream.write_all(&whole.as_bytes()[..whole.len() - missing]).await;
    }
}

fn content_length(head: &[u8]) -> usize {
    let length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    };
    std::str::from_utf8(head).unwrap().lines().find_map(length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    // Shows (Reliability).
    #[tokio::test(start_paused = true)]
    async fn requests_are_read_one_after_another_and_the_end_is_seen_while_a_node_works() {
        let (mut near, far) = duplex(1 << 10);
        let mut wire = NodeWire::new(far);
        for number in 0..3 {
            let body = format!("[{number}]");
            let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
            near.write_all((head + &body).as_bytes()).await.unwrap();
            assert_eq!(wire.request().await, Some(serde_json::json!([number])));
            assert!(wire.is_awaited_for(Duration::from_secs(1)).await);
            wire.answer(200, "", "{}", 1).await;
            let mut answer = [0; 1 << 10];
            let length = near.read(&mut answer).await.unwrap();
            assert_eq!(&answer[..length], b"HTTP/1.1 200 -\r\ncontent-length: 2\r\n\r\n{");
        }
        drop(near);
        assert!(!wire.is_awaited_for(Duration::from_secs(1)).await);
        assert_eq!(wire.request().await, None);
    }
}

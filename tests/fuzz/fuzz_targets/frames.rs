//! The bytes of a client or a node on a WebSocket: the messages do not depend on how the bytes are split, another
//! implementation reads the same ones, and the memory is at most the received bytes.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use rpcgate_layers::fuzzing::frames_read;
use std::io::{self, Read, Write};
use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

const MOST: usize = 100_000;
const ROOM: usize = 1 << 20;
/// The size of a frame or of fragments that needs no permit.
const SMALL: usize = 64 << 10;

struct Given<'a>(&'a [u8]);

impl Read for Given<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Given<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns opcode and payload of the messages and control frames, up to a close frame, and whether the bytes are valid.
fn by_tungstenite(bytes: &[u8], is_client: bool) -> (Vec<(u8, Vec<u8>)>, bool) {
    let role = if is_client { Role::Server } else { Role::Client };
    let config = WebSocketConfig::default().max_message_size(Some(MOST)).max_frame_size(Some(MOST));
    let mut socket = WebSocket::from_raw_socket(Given(bytes), role, Some(config));
    let mut messages = Vec::new();
    loop {
        messages.push(match socket.read() {
            Ok(Message::Text(text)) => (1, text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => (2, bytes.to_vec()),
            Ok(Message::Ping(bytes)) => (9, bytes.to_vec()),
            Ok(Message::Pong(bytes)) => (10, bytes.to_vec()),
            Ok(Message::Close(_)) => {
                messages.push((8, Vec::new()));
                return (messages, true);
            }
            Ok(Message::Frame(_)) => continue,
            Err(error) => {
                let is_end = matches!(error, Error::Protocol(ResetWithoutClosingHandshake) | Error::ConnectionClosed);
                return (messages, is_end);
            }
        });
    }
}

fuzz_target!(|input: &[u8]| {
    let [flags, size, bytes @ ..] = input else { return };
    let is_client = flags & 1 == 0;
    let whole = frames_read(&[Bytes::copy_from_slice(bytes)], is_client, MOST, ROOM);
    let pieces: Vec<_> = bytes.chunks(usize::from(*size).max(1)).map(Bytes::copy_from_slice).collect();
    let cut = frames_read(&pieces, is_client, MOST, ROOM);
    assert_eq!((&whole.frames, whole.is_end), (&cut.frames, cut.is_end));
    for read in [&whole, &cut] {
        assert!(read.held <= 2 * (bytes.len() + SMALL) && read.left == 0 && !read.is_starved);
    }
    let payloads: usize = whole.frames.iter().map(|(_, _, payload)| payload.len()).sum();
    assert!(payloads <= bytes.len());

    let (theirs, is_valid) = by_tungstenite(bytes, is_client);
    let both = theirs.len().min(whole.messages.len());
    assert_eq!(theirs[..both], whole.messages[..both]);
    if is_valid && whole.is_end {
        assert_eq!(theirs, whole.messages);
    }
});

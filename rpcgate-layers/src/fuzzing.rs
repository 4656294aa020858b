//! Private parsers of external bytes, for the fuzz targets in `tests/fuzz`. Built only with `--cfg fuzzing`, which
//! cargo-fuzz sets.

use crate::transport::ws::incoming::ReadError;
use crate::transport::ws::read_all::{CompleteMessage, read_all};
use crate::transport::ws::wire::Role;
use bytes::Bytes;

pub use crate::grpc::fuzzing::{FedMessages, fed_messages, grpc_timeout, grpc_timeout_text};

/// The result of the frame reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FramesRead {
    /// Each frame with its `fin` flag, opcode and payload.
    pub frames: Vec<(bool, u8, Vec<u8>)>,
    /// The messages and control frames up to a close frame, with opcode and payload. The payload of a close frame is
    /// omitted.
    pub messages: Vec<(u8, Vec<u8>)>,
    /// True if the frames ended with the bytes, without an error.
    pub is_end: bool,
    /// True if the frames ended for lack of memory.
    pub is_starved: bool,
    /// The maximum number of bytes held in the memory of all bodies after a frame.
    pub held: usize,
    /// The number of bytes held after the reader was dropped.
    pub left: usize,
}

/// Reads frames of a client or a node from `pieces`, with `memory` bytes of memory for bodies.
pub fn frames_read(pieces: &[Bytes], is_client: bool, max_message: usize, memory: usize) -> FramesRead {
    let role = if is_client { Role::Server } else { Role::Client };
    let all = read_all(pieces, role, max_message, memory);
    let messages = all.complete_messages().0.into_iter().map(|message| match message {
        CompleteMessage::Message(is_text, payload) => (if is_text { 1 } else { 2 }, payload),
        CompleteMessage::Ping(payload) => (9, payload),
        CompleteMessage::Pong(payload) => (10, payload),
        CompleteMessage::Close => (8, Vec::new()),
    });
    FramesRead {
        messages: messages.collect(),
        is_end: all.end == ReadError::Lost,
        is_starved: all.end == ReadError::NoMemory,
        frames: all.frames,
        held: all.held,
        left: all.left,
    }
}

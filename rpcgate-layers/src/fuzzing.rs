//! Readers of bytes from outside that are private to this crate, for the fuzz targets in `tests/fuzz`. Built only with
//! `--cfg fuzzing`, which cargo-fuzz sets.

use crate::transport::ws::incoming::ReadError;
use crate::transport::ws::read_all::{Whole, read_all};
use crate::transport::ws::wire::Role;
use bytes::Bytes;

pub use crate::grpc::fuzzing::{FedMessages, fed_messages, grpc_timeout, grpc_timeout_text};

/// What the frame reader makes of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FramesRead {
    /// Of each frame: whether it is the last one of its message, its opcode, its payload.
    pub frames: Vec<(bool, u8, Vec<u8>)>,
    /// The messages and control frames of these, up to a close frame: opcode and payload. A close frame is there without its
    /// payload.
    pub messages: Vec<(u8, Vec<u8>)>,
    /// Whether it was the end of the bytes that ended the frames, and no error.
    pub is_end: bool,
    /// Whether it was want of memory.
    pub is_starved: bool,
    /// Bytes that it took from the memory of all bodies, at most after a frame.
    pub held: usize,
    /// The same when the reader was gone.
    pub left: usize,
}

/// Reads the pieces of what a client sends, or a node, with this much memory for bodies.
pub fn frames_read(pieces: &[Bytes], is_client: bool, max_message: usize, room: usize) -> FramesRead {
    let role = if is_client { Role::Server } else { Role::Client };
    let all = read_all(pieces, role, max_message, room);
    let messages = all.wholes().0.into_iter().map(|whole| match whole {
        Whole::Message(is_text, payload) => (if is_text { 1 } else { 2 }, payload),
        Whole::Ping(payload) => (9, payload),
        Whole::Pong(payload) => (10, payload),
        Whole::Close => (8, Vec::new()),
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

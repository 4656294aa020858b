//! Reading an answer into memory.

use super::connect::Conn;
use super::node_request::NodeRequestError;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use std::future::poll_fn;

/// What was read of a body.
pub(super) enum Collected {
    /// All of it.
    Whole(Bytes),
    /// Its beginning; it has more than the limit.
    Prefix(Bytes),
}

/// Enough of a long answer to tell what it is. More would only be copied twice.
const PREFIX: usize = 16 << 10;

/// Reads `body`, which comes on `conn`, up to `limit` bytes. What is read takes its place in `room` as it comes.
pub(super) async fn collect(
    conn: &mut Conn,
    body: &mut Incoming,
    limit: usize,
    room: &mut MemoryPermit,
) -> Result<Collected, NodeRequestError> {
    let declared = body.size_hint().exact();
    let enough = if declared.is_some_and(|length| length > limit as u64) { limit.min(PREFIX) } else { limit };
    let mut read = Pieces::None;
    loop {
        if read.len() > enough {
            return Ok(Collected::Prefix(read.join()));
        }
        if body.is_end_stream() {
            return Ok(Collected::Whole(read.join()));
        }
        let Some(frame) = poll_fn(|cx| conn.poll_frame(body, cx)).await else {
            return Ok(Collected::Whole(read.join()));
        };
        let frame = frame.map_err(|_| Fault::sent(Cause::Broken))?;
        // Trailers say nothing that anybody here asks for.
        let Ok(data) = frame.into_data() else { continue };
        let is_whole = matches!(read, Pieces::None) && body.is_end_stream();
        let taken = if is_whole { room.take_whole(data.len()) } else { room.take(data.len()) };
        taken.map_err(|_| NodeRequestError::Busy)?;
        read.push(data, declared.map_or(0, |length| length.min(limit as u64) as usize));
    }
}

/// Most answers come in one piece, which is kept as it is.
enum Pieces {
    None,
    One(Bytes),
    Joined(BytesMut),
}

impl Pieces {
    fn len(&self) -> usize {
        match self {
            Pieces::None => 0,
            Pieces::One(bytes) => bytes.len(),
            Pieces::Joined(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, data: Bytes, expected: usize) {
        match self {
            Pieces::None => *self = Pieces::One(data),
            Pieces::One(first) => {
                // No more than twice what has come: a length is only a promise, memory is taken for what is there.
                let come = first.len() + data.len();
                let mut joined = BytesMut::with_capacity(expected.clamp(come, 2 * come));
                joined.extend_from_slice(first);
                joined.extend_from_slice(&data);
                *self = Pieces::Joined(joined);
            }
            Pieces::Joined(joined) => joined.extend_from_slice(&data),
        }
    }

    fn join(self) -> Bytes {
        match self {
            Pieces::None => Bytes::new(),
            Pieces::One(bytes) => bytes,
            Pieces::Joined(bytes) => bytes.freeze(),
        }
    }
}

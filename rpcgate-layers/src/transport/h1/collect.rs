use super::connection::NodeConnection;
use crate::nodes::error::NodeRequestError;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use std::future::poll_fn;

pub(super) enum Collected {
    Complete(Bytes),
    /// The start of a body that is longer than the limit.
    Prefix(Bytes),
}

/// The length of the prefix: enough to recognise the answer. More would only be copied twice.
const PREFIX: usize = 16 << 10;

/// Reads `body`, which comes on `connection`, up to `limit` bytes. They are taken from `memory` as they come.
pub(super) async fn collect(
    connection: &mut NodeConnection,
    body: &mut Incoming,
    limit: usize,
    memory: &mut MemoryPermit,
) -> Result<Collected, NodeRequestError> {
    let declared = body.size_hint().exact();
    let enough = if declared.is_some_and(|length| length > limit as u64) { limit.min(PREFIX) } else { limit };
    let mut read = Pieces::None;
    loop {
        if read.len() > enough {
            return Ok(Collected::Prefix(read.join()));
        }
        if body.is_end_stream() {
            return Ok(Collected::Complete(read.join()));
        }
        let Some(frame) = poll_fn(|cx| connection.poll_frame(body, cx)).await else {
            return Ok(Collected::Complete(read.join()));
        };
        let frame = frame.map_err(|_| Fault::sent(Cause::Broken))?;
        // Trailers are not used.
        let Ok(data) = frame.into_data() else { continue };
        let is_complete = matches!(read, Pieces::None) && body.is_end_stream();
        let taken = if is_complete { memory.take_complete(data.len()) } else { memory.take(data.len()) };
        taken.map_err(|_| NodeRequestError::Busy)?;
        read.push(data, declared.map_or(0, |length| length.min(limit as u64) as usize));
    }
}

/// The read pieces. Most answers arrive in one piece, which is not copied.
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
                // At most twice the bytes that were read: the declared length is not reliable.
                let read = first.len() + data.len();
                let mut joined = BytesMut::with_capacity(expected.clamp(read, 2 * read));
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

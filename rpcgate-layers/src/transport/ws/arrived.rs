//! The bytes that arrive on a connection between two frames, which are most often one whole frame.
//!
//! fastwebsockets reads frames into its own buffer of 8 KiB. Thousands of idle streams must not hold such a buffer, and
//! creating one for each frame is expensive. So all connections of a thread share one reader: it gets the result of one
//! read, which is often exactly one frame. Otherwise the connection gets its own reader, which starts with the same
//! bytes.

use super::read_only::{ReadOnly, reader};
use super::wire::{Role, head_len, is_masked};
use bytes::Bytes;
use fastwebsockets::{Frame, WebSocket};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// The number of bytes that are read at once when a connection becomes readable.
const SCRATCH: usize = 16 << 10;

/// The largest read that the shared reader tries. For a longer one, decoding twice would cost more than the shared
/// reader saves.
const SHARED: usize = 4 << 10;

thread_local! {
    static READERS: RefCell<Readers> = RefCell::new(Readers::default());
}

pub(super) enum Arrived {
    /// One frame without its mask, whether it had one, and its length on the wire.
    Frame(Frame<'static>, bool, usize),
    /// A part of a frame, several frames, or invalid bytes.
    Bytes(Bytes),
}

/// Reads once from `inner`, whose frames are read in this role. `may_be_one`: tries whether the bytes are one frame.
pub(super) fn poll_arrived<R>(
    inner: &mut R,
    role: Role,
    may_be_one: bool,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Arrived>>
where
    R: AsyncRead + Unpin,
{
    READERS.with_borrow_mut(|readers| {
        let len = {
            let mut scratch = readers.scratch.0.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch.bytes);
            ready!(Pin::new(inner).poll_read(cx, &mut buffer))?;
            let len = buffer.filled().len();
            scratch.left = 0..len;
            len
        };
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        if may_be_one
            && len <= SHARED
            && let Some((frame, is_masked)) = readers.frame(role, len)
        {
            return Poll::Ready(Ok(Arrived::Frame(frame, is_masked, len)));
        }
        Poll::Ready(Ok(Arrived::Bytes(Bytes::copy_from_slice(&readers.scratch.0.borrow().bytes[..len]))))
    })
}

struct Readers {
    scratch: Scratch,
    server: Option<WebSocket<ReadOnly<Scratch>>>,
    client: Option<WebSocket<ReadOnly<Scratch>>>,
}

impl Default for Readers {
    fn default() -> Self {
        let arrived = ScratchBytes { bytes: vec![0; SCRATCH].into(), left: 0..0 };
        Readers { scratch: Scratch(Rc::new(RefCell::new(arrived))), server: None, client: None }
    }
}

impl Readers {
    /// Returns the frame in the `len` arrived bytes, and whether it had a mask; `None` if they are not exactly one
    /// frame.
    fn frame(&mut self, role: Role, len: usize) -> Option<(Frame<'static>, bool)> {
        let slot = match role {
            Role::Server => &mut self.server,
            Role::Client => &mut self.client,
        };
        let reader = slot.get_or_insert_with(|| reader(self.scratch.clone(), role));
        // Refuses an incomplete frame immediately, without a buffer for it.
        reader.set_max_message_size(len);
        let polled = pin!(reader.read_frame()).poll(&mut Context::from_waker(Waker::noop()));
        let frame = match polled {
            Poll::Ready(Ok(mut frame)) => {
                let is_masked = is_masked(&mut frame);
                let is_all = head_len(frame.payload.len(), is_masked) + frame.payload.len() == len;
                is_all.then_some((frame, is_masked))
            }
            _ => None,
        };
        if frame.is_none() {
            // The reader holds bytes that do not belong to the next connection.
            *slot = None;
        }
        frame
    }
}

/// The bytes of one read, which fastwebsockets reads as if they were a connection.
#[derive(Clone)]
struct Scratch(Rc<RefCell<ScratchBytes>>);

struct ScratchBytes {
    bytes: Box<[u8]>,
    /// The range of the bytes that are not read yet.
    left: std::ops::Range<usize>,
}

impl AsyncRead for Scratch {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut scratch = self.0.borrow_mut();
        let taken = scratch.left.len().min(buffer.remaining());
        let start = scratch.left.start;
        buffer.put_slice(&scratch.bytes[start..start + taken]);
        scratch.left.start += taken;
        // For fastwebsockets an empty read is the end of the connection: it returns an error.
        Poll::Ready(Ok(()))
    }
}

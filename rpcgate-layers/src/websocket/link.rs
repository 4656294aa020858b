//! The two sides of a stream, shared by its directions and its upkeep.

use super::close::CloseReason;
use super::limits::StreamLimits;
use super::messages::Messages;
use super::open_streams::KeyStreams;
use crate::nodes::node::Node;
use crate::transport::ws::incoming::ReadProgress;
use crate::transport::ws::outgoing::FrameWriter;
use bytes::Bytes;
use fastwebsockets::{CloseCode, OpCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rpcgate_core::memory::MemoryPermit;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::io::WriteHalf;

/// The number of bytes for a slow client, or of an incomplete message, that need no memory permit.
pub(super) const SMALL: usize = 64 << 10;

/// The number of bytes that may wait for their turn. With more, a side is written to immediately.
pub(super) const COALESCED: usize = 16 << 10;

/// The payload of the gateway's own pings. Pongs with it are not forwarded.
pub(super) const OWN_PING: &[u8] = b"rpcgate keep-alive";

pub(super) type Io = TokioIo<Upgraded>;

/// One side of a stream. Only the task of the stream takes its locks.
pub(super) struct Side {
    pub(super) writer: Mutex<FrameWriter<WriteHalf<Io>>>,
    pub(super) progress: Arc<ReadProgress>,
    has_closed: AtomicBool,
    /// True if the side was sent a close frame.
    has_sent_close: AtomicBool,
}

impl Side {
    pub(super) fn new(writer: FrameWriter<WriteHalf<Io>>, progress: Arc<ReadProgress>) -> Self {
        Side {
            writer: Mutex::new(writer),
            progress,
            has_closed: AtomicBool::new(false),
            has_sent_close: AtomicBool::new(false),
        }
    }

    pub(super) fn has_closed(&self) -> bool {
        self.has_closed.load(Relaxed)
    }

    pub(super) fn closes(&self) {
        self.has_closed.store(true, Relaxed);
    }

    /// Sends a close frame, the last frame to this side.
    pub(super) fn send_close(&self, payload: &[u8]) {
        if !self.has_sent_close.swap(true, Relaxed) {
            self.writer.lock().push_copied(true, OpCode::Close, payload);
        }
    }

    /// Sends a frame, unless a close frame was sent.
    pub(super) fn send(&self, fin: bool, opcode: OpCode, payload: Bytes) {
        if !self.has_sent_close.load(Relaxed) {
            self.writer.lock().push(fin, opcode, payload);
        }
    }

    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.writer.lock().poll_flush(cx)
    }
}

pub(super) struct Link {
    pub(super) client: Side,
    pub(super) node: Side,
    pub(super) messages: Mutex<Messages>,
    pub(super) key: Arc<KeyStreams>,
    pub(super) source: Arc<Node>,
    pub(super) limits: StreamLimits,
    pub(super) backlog: Mutex<MemoryPermit>,
    pub(super) received: AtomicU64,
    pub(super) is_closing: AtomicBool,
}

impl Link {
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    /// Reports whether one side has sent a close frame and the stream waits for the other's.
    pub(super) fn is_half_closed(&self) -> bool {
        self.client.has_closed() || self.node.has_closed()
    }

    /// Waits until the queue for the node is short.
    pub(super) async fn node_ready(&self) -> Result<(), CloseReason> {
        poll_fn(|cx| {
            let mut writer = self.node.writer.lock();
            if writer.queued() <= COALESCED || self.is_closing() {
                return Poll::Ready(Ok(()));
            }
            writer.poll_flush(cx).map_err(|_| CloseReason::NodeLost)
        })
        .await
    }

    /// Waits until the queue for the client is short enough to read more for it.
    pub(super) async fn client_ready(&self) -> Result<(), CloseReason> {
        poll_fn(|cx| {
            let mut writer = self.client.writer.lock();
            if writer.queued() <= COALESCED || self.is_closing() {
                return Poll::Ready(Ok(()));
            }
            let polled = writer.poll_below(self.limits.max_backlog, cx);
            let queued = writer.queued();
            let mut backlog = self.backlog.lock();
            backlog.keep(if queued > SMALL { queued } else { 0 });
            let is_held = queued <= SMALL || backlog.take_up_to(queued).is_ok();
            match polled {
                // Without memory for more, only a small queue is allowed.
                Poll::Ready(Ok(())) if !is_held => writer.poll_below(SMALL, cx),
                polled => polled,
            }
            .map_err(|_| CloseReason::ClientLost)
        })
        .await
    }
}

/// Checks the payload of a close frame (RFC 6455, section 5.5.1).
pub(super) fn check_close(payload: &[u8]) -> Result<(), CloseReason> {
    /// This code was registered later than those that the library knows.
    const BAD_GATEWAY: u16 = 1014;
    match payload {
        [] => Ok(()),
        [first, second, reason @ ..] => {
            let code = u16::from_be_bytes([*first, *second]);
            if code != BAD_GATEWAY && !CloseCode::from(code).is_allowed() {
                Err(CloseReason::ProtocolError)
            } else if std::str::from_utf8(reason).is_err() {
                Err(CloseReason::InvalidText)
            } else {
                Ok(())
            }
        }
        _ => Err(CloseReason::ProtocolError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_frames_with_codes_that_may_not_be_sent_are_refused() {
        let check = |code: u16, reason: &[u8]| check_close(&[&code.to_be_bytes()[..], reason].concat());
        for code in [1000, 1001, 1002, 1003, 1007, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999] {
            assert_eq!(check(code, b"bye"), Ok(()), "{code}");
        }
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
            assert_eq!(check(code, b""), Err(CloseReason::ProtocolError), "{code}");
        }
        assert_eq!(check(1000, &[0xff]), Err(CloseReason::InvalidText));
        assert_eq!(check_close(&[3]), Err(CloseReason::ProtocolError));
        assert_eq!(check_close(&[]), Ok(()));
    }
}

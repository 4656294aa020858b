//! A limit of the bytes that a node sends before an answer.
//!
//! hyper reads and drops interim answers (1xx) without a limit. A node that sends nothing else would keep a thread busy
//! until the deadline of its call.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum number of bytes before the end of an answer's head. A single read of hyper, which may include a part of
/// the body, is smaller.
const MAX: usize = 1 << 20;

/// The number of bytes that may still arrive before the head of an answer is complete.
#[derive(Clone, Debug)]
pub(super) struct HeadBytes(Arc<AtomicUsize>);

impl Default for HeadBytes {
    fn default() -> Self {
        HeadBytes(Arc::new(AtomicUsize::new(usize::MAX)))
    }
}

impl HeadBytes {
    /// Starts the limit: a request is about to be written.
    pub(super) fn expect(&self) {
        self.0.store(MAX, Relaxed);
    }

    /// Ends the limit: the head of the answer has arrived.
    pub(super) fn arrived(&self) {
        self.0.store(usize::MAX, Relaxed);
    }

    /// Counts bytes that were read. Returns true if they exceed the limit.
    fn take(&self, bytes: usize) -> bool {
        let left = self.0.load(Relaxed);
        if left == usize::MAX {
            return false;
        }
        self.0.store(left.saturating_sub(bytes), Relaxed);
        bytes > left
    }
}

/// A socket that fails when more bytes arrive than [`HeadBytes`] allows.
pub(super) struct BoundedSocket<T> {
    socket: T,
    head: HeadBytes,
}

impl<T> BoundedSocket<T> {
    pub(super) fn new(socket: T, head: HeadBytes) -> Self {
        BoundedSocket { socket, head }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for BoundedSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        if polled.is_ready() && self.head.take(buf.filled().len().saturating_sub(before)) {
            return Poll::Ready(Err(io::Error::other("too many bytes before an answer")));
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for BoundedSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, answer, broken};

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn some_interim_answers_are_dropped_and_endless_ones_end_the_call() {
        const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
        for (count, is_answered) in [(1, true), (200, true), (1_000_000, false)] {
            let node = ScriptedNode::serve(move |_, mut wire| async move {
                while wire.request().await.is_some() {
                    for _ in 0..count / 1_000 {
                        wire.write(INTERIM.repeat(1_000)).await;
                    }
                    wire.write(INTERIM.repeat(count % 1_000) + &answer("{}")).await;
                }
            })
            .await;
            let fixture = PoolFixture::new(&[&node]);
            let read = fixture.broadcast().await;
            assert_eq!(read, if is_answered { Ok("{}".to_owned()) } else { Err(broken()) }, "{count}");
        }
    }
}

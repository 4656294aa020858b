//! A socket that counts the bytes that the client takes. It is below TLS, which buffers some bytes itself.

use super::connection_state::ConnectionState;
use rpcgate_process::accept::ConnectionPermit;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Records in the connection's state the bytes that the client has taken, and whether it takes more.
#[derive(Debug)]
pub(super) struct Counted<T> {
    inner: T,
    state: Arc<ConnectionState>,
    /// Its permit of the connection limit. The socket of a WebSocket stream outlives its HTTP connection.
    _permit: ConnectionPermit,
}

impl<T> Counted<T> {
    pub(super) fn new(inner: T, state: Arc<ConnectionState>, permit: ConnectionPermit) -> Self {
        Counted { inner, state, _permit: permit }
    }

    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(bytes @ 1..)) => self.state.took(bytes),
            Poll::Pending => self.state.set_blocked(true),
            Poll::Ready(_) => {}
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.state.set_blocked(result.is_pending());
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

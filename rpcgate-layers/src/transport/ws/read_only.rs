use super::wire::Role;
use fastwebsockets::WebSocket;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A read-only connection for fastwebsockets, which requires a writable one. With automatic answers off it never
/// writes.
pub(super) struct ReadOnly<R>(pub(super) R);

/// Returns a reader of the frames in `source`, which returns them unchanged.
pub(super) fn reader<R: AsyncRead + Unpin>(source: R, role: Role) -> WebSocket<ReadOnly<R>> {
    let mut reader = WebSocket::after_handshake(ReadOnly(source), role.of_library());
    reader.set_auto_close(false);
    reader.set_auto_pong(false);
    reader
}

impl<R: AsyncRead + Unpin> AsyncRead for ReadOnly<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<R: Unpin> AsyncWrite for ReadOnly<R> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

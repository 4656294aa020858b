//! The connection to a mail server as the library for SMTP gets it.

use lettre::transport::smtp::client::AsyncTokioStream;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, ReadBuf};

/// A server says nothing after STARTTLS before the client does. The library expects a greeting, so it gets this one.
const AFTER_STARTTLS: &[u8] = b"220 TLS\r\n";

/// A connection to a mail server.
#[derive(Debug)]
pub(super) struct ServerStream<S> {
    stream: BufReader<S>,
    /// The bytes that are read before those of the server.
    before: &'static [u8],
}

impl<S: AsyncRead + AsyncWrite + Unpin> ServerStream<S> {
    /// A connection on which the server greets.
    pub(super) fn new(stream: S) -> Self {
        ServerStream { stream: BufReader::new(stream), before: &[] }
    }

    /// A connection that was encrypted after the greeting.
    pub(super) fn after_starttls(stream: S) -> Self {
        ServerStream { before: AFTER_STARTTLS, ..ServerStream::new(stream) }
    }

    /// Waits until the server has sent something, or has closed the connection.
    ///
    /// # Errors
    /// Those of the connection.
    pub(super) async fn wait_readable(&mut self) -> io::Result<()> {
        if self.before.is_empty() { self.stream.fill_buf().await.map(drop) } else { Ok(()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ServerStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let (read, rest) = self.before.split_at(self.before.len().min(buf.remaining()));
        buf.put_slice(read);
        self.before = rest;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ServerStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug> AsyncTokioStream for ServerStream<S> {
    /// The library has this function for its callers alone.
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

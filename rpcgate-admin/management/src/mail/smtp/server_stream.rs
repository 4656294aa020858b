//! The connection to a mail server, adapted to the SMTP library.

use lettre::transport::smtp::client::AsyncTokioStream;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, ReadBuf};

/// The greeting that the library expects after STARTTLS. Servers send none there, so we insert this one.
const AFTER_STARTTLS: &[u8] = b"220 TLS\r\n";

const EHLO: &[u8] = b"EHLO";

/// The command with which this host introduces itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HelloCommand {
    Ehlo,
    /// `HELO`, for servers that do not know `EHLO` (RFC 5321, section 3.2).
    Helo,
}

#[derive(Debug)]
pub(super) struct ServerStream<S> {
    stream: BufReader<S>,
    /// Bytes that the library reads before those of the server.
    before: &'static [u8],
    command: HelloCommand,
    /// The unsent bytes of `HELO`, which replaces the library's `EHLO`.
    instead: &'static [u8],
}

impl<S: AsyncRead + AsyncWrite + Unpin> ServerStream<S> {
    /// Wraps a connection on which the server sends a greeting.
    pub(super) fn new(stream: S) -> Self {
        let stream = BufReader::new(stream);
        ServerStream { stream, before: &[], command: HelloCommand::Ehlo, instead: &[] }
    }

    /// Wraps a connection that was encrypted after the greeting.
    pub(super) fn after_starttls(stream: S) -> Self {
        ServerStream { before: AFTER_STARTTLS, ..ServerStream::new(stream) }
    }

    /// Sets the command with which this host introduces itself.
    #[must_use]
    pub(super) fn with_command(self, command: HelloCommand) -> Self {
        let instead: &[u8] = if command == HelloCommand::Helo { b"HELO" } else { &[] };
        ServerStream { command, instead, ..self }
    }

    pub(super) fn command(&self) -> HelloCommand {
        self.command
    }

    /// Waits until the server has sent data or closed the connection.
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
        let instead = self.instead;
        // After a partial write, the library writes the rest of its command again.
        if instead.is_empty() || !buf.starts_with(EHLO.split_at(EHLO.len() - instead.len()).1) {
            return Pin::new(&mut self.stream).poll_write(cx, buf);
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, instead);
        if let Poll::Ready(Ok(count)) = &written {
            self.instead = instead.get(*count..).unwrap_or_default();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug> AsyncTokioStream for ServerStream<S> {
    /// The library calls this function only for its users.
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

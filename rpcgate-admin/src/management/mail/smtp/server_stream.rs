//! The connection to a mail server as the library for SMTP gets it.

use super::conversation::REPLY;
use crate::management::egress::tls::sentence;
use crate::management::mail::MailError;
use lettre::transport::smtp::client::AsyncTokioStream;
use rustls_pki_types::ServerName;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

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

/// The TLS of a mail server.
#[derive(Clone)]
pub(super) struct ServerTls {
    pub(super) connector: TlsConnector,
    /// The name that the server's certificate must have.
    pub(super) name: ServerName<'static>,
}

impl ServerTls {
    /// Encrypts a connection.
    ///
    /// # Errors
    /// [`MailError::Unavailable`] with the reason in words.
    pub(super) async fn encrypt(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, MailError> {
        let encrypted = timeout(REPLY, self.connector.connect(self.name.clone(), stream)).await;
        let encrypted =
            encrypted.map_err(|_| MailError::Unavailable(format!("no answer to TLS within {REPLY:?}")))?;
        encrypted.map_err(|error| MailError::Unavailable(format!("TLS failed: {}", sentence(&error))))
    }
}

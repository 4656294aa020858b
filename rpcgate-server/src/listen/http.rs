//! The listener for HTTP: accepts, bounds and serves.

use super::body::{Arriving, BoxError};
use super::counted::Counted;
use super::door::Door;
use super::guard::{Guarded, Presence};
use super::hall::{Guest, Hall};
use super::own;
use super::reader::ReadPace;
use super::stream::Streams;
use super::tls::{Certificate, H2};
use super::visit::{End, Patience, Serve, Visit};
use crate::assemble::size;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rpcgate_core::config::Limits;
use rpcgate_layers::gather::Gather;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tower::Service;

/// Connections that the system may hold until they are accepted; it takes less if its own bound is lower.
const BACKLOG: u32 = 4096;
/// Bytes of answers that the kernel takes before their client has room for them. By itself it takes up to 4 MiB
/// (`tcp_wmem`) for each client that reads nothing, out of memory that all sockets of the machine share (`tcp_mem`).
#[cfg(target_os = "linux")]
const UNSENT: u32 = 256 << 10;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long accepting rests when the machine has no socket left to give.
const REST: Duration = Duration::from_millis(50);
/// Connections turned away that are kept until their clients have read why.
const TURNED_AWAY: usize = 64;
/// Streams of one HTTP/2 connection at a time.
const STREAMS: u32 = 100;
/// Bytes that a client may send ahead on one stream, and on all streams of a connection.
const WINDOWS: (u32, u32) = (64 << 10, 1 << 20);

/// What one connection may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    connections: usize,
    head: usize,
    fields: usize,
    patience: Patience,
}

impl Bounds {
    /// Those of `limits`, for so many connections. Heads may be somewhat larger than `limits` says: then it is the
    /// road that refuses them; what is larger still hyper does not read.
    pub(crate) fn new(limits: &Limits, connections: usize) -> Self {
        let framing = 4 * limits.header_count as usize + (16 << 10);
        Bounds {
            connections,
            head: size(limits.headers).saturating_add(size(limits.uri)).saturating_add(framing),
            fields: limits.header_count as usize,
            patience: Patience {
                head: limits.header_timeout,
                idle: limits.idle_timeout,
                reading: ReadPace {
                    timeout: limits.write_timeout,
                    grace: limits.body_grace,
                    rate: limits.body_rate,
                },
            },
        }
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        // Slow heads are cut by `Visit`: hyper's own timer also runs while a connection is merely idle.
        builder.header_read_timeout(None).max_header_size(self.head).max_buf_size(self.head.max(64 << 10));
        if self.fields > 100 {
            // A bound other than hyper's own costs an allocation for each request.
            builder.max_headers(self.fields + 16);
        }
        builder
    }

    fn http2(&self, presence: &Arc<Presence>) -> http2::Builder<Streams> {
        let mut builder = http2::Builder::new(Streams::new(presence.clone(), self.patience.reading));
        let fields = u32::try_from(self.fields).unwrap_or(u32::MAX);
        // RFC 9113, section 6.5.2: each field counts for 32 bytes more than it has.
        let head = u32::try_from(self.head).unwrap_or(u32::MAX).saturating_add(fields.saturating_mul(32));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_header_list_size(head);
        builder
    }
}

/// A socket that listens at `addr`, and where that is.
pub(crate) fn bound(addr: SocketAddr, backlog: u32) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Else a restart would wait for the connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let socket = socket.listen(backlog)?;
    // Connections have it from the socket that accepts them. Where a kernel does not know it, its own bounds hold.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT);
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

/// A bound address.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        let (socket, addr) = bound(addr, BACKLOG)?;
        Ok(Listener { socket, addr })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts connections and serves each with a clone of `road`, until the hall closes.
    pub(crate) async fn serve<S, B>(
        self,
        road: S,
        bounds: Bounds,
        certificate: Option<Arc<Certificate>>,
        hall: Arc<Hall>,
    ) where
        S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let mut turned_away = VecDeque::with_capacity(TURNED_AWAY);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = hall.closed() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            if hall.open() >= bounds.connections {
                if turned_away.len() == TURNED_AWAY {
                    turned_away.pop_front();
                }
                if certificate.is_none() {
                    turned_away.extend(turn_away(stream));
                }
                continue;
            }
            // Answers are written whole, so there is nothing to wait for.
            let _ = stream.set_nodelay(true);
            let guest = hall.enter();
            let (road, certificate) = (road.clone(), certificate.clone());
            hall.run(async move {
                match certificate {
                    None => {
                        let stream = Counted::new(Gather::new(stream), guest.presence.clone());
                        end(http1(stream, road, guest, &bounds).await);
                    }
                    Some(certificate) => secured(stream, &certificate, road, guest, &bounds).await,
                }
            });
        }
    }
}

/// Whether an error of `accept` is about the connection that was to be accepted, not about accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Tells a client beyond the bound to come back. The socket lives on without a task: closed at once, with the client's
/// request unread, it would take the answer back.
fn turn_away(stream: TcpStream) -> Option<std::net::TcpStream> {
    stream.try_write(&own::full()).ok()?;
    let stream = stream.into_std().ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    Some(stream)
}

async fn secured<T, S, B>(stream: T, certificate: &Certificate, road: S, guest: Guest, bounds: &Bounds)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send,
{
    let hall = guest.hall.clone();
    let stream = Counted::new(stream, guest.presence.clone());
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(HANDSHAKE, certificate.acceptor().accept(stream)) => accepted,
        () = hall.closed() => return,
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    if stream.get_ref().1.alpn_protocol() == Some(H2) {
        end(http2(stream, road, guest, bounds).await);
    } else {
        end(http1(stream, road, guest, bounds).await);
    }
}

async fn http1<T, S, B>(stream: T, road: S, guest: Guest, bounds: &Bounds) -> End
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let io = TokioIo::new(Guarded::http1(stream, guest.presence.clone(), bounds.head));
    let door = Door::new(road, guest.hall.clone(), guest.presence.clone());
    visit(bounds.http1().serve_connection(io, door), guest, bounds).await
}

async fn http2<T, S, B>(stream: T, road: S, guest: Guest, bounds: &Bounds) -> End
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send,
{
    let io = TokioIo::new(Guarded::http2(stream, guest.presence.clone()));
    let door = Door::of_streams(road, guest.hall.clone(), guest.presence.clone());
    let connection = bounds.http2(&guest.presence).serve_connection(io, door);
    visit(connection, guest, bounds).await
}

async fn visit<C: Serve>(connection: C, guest: Guest, bounds: &Bounds) -> End {
    Visit::new(connection, guest, bounds.patience).await
}

/// Tells the log why a connection ended, where that is of interest to somebody who looks for a fault.
fn end(end: End) {
    match end {
        End::Done(Ok(())) | End::Idle => {}
        End::Done(Err(error)) => tracing::debug!(%error, "connection failed"),
        End::SlowReader => tracing::debug!("connection cut: its client took its answer too slowly"),
        End::SlowHead => tracing::debug!("connection closed: its head came too slowly"),
        End::Cut => tracing::debug!("connection cut"),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

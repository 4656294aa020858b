//! The HTTP listener, which accepts, bounds and serves connections.

use super::body::{BoxError, RequestBody};
use super::builtin;
use super::connection::{Connection, End, Serve, Timeouts};
use super::connection_state::ConnectionState;
use super::connections::{ConnectionHandle, Connections};
use super::counted::Counted;
use super::frames::PREFACE;
use super::guard::Guarded;
use super::reader::ReadPace;
use super::service::ConnectionService;
use super::stream::Streams;
use crate::assemble::size;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rpcgate_config::LimitSettings;
use rpcgate_layers::coalesced_writes::CoalescedWrites;
use rpcgate_layers::deferred::Deferred;
use rpcgate_process::accept::{Acceptor, ConnectionBound};
use rpcgate_process::proxy_protocol::ProxyPeers;
use rpcgate_process::tls::{Certificate, H2};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::Service;

/// The listen backlog; the operating system's own limit may be lower.
const BACKLOG: u32 = 4096;
/// The maximum bytes that the kernel queues for a client that does not read. Its default is up to 4 MiB per client
/// (`tcp_wmem`), out of memory that all sockets of the machine share (`tcp_mem`).
#[cfg(target_os = "linux")]
const UNSENT: u32 = 256 << 10;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The maximum concurrent streams of an HTTP/2 connection.
const STREAMS: u32 = 100;
/// The receive windows, in bytes, of a stream and of a connection.
const WINDOWS: (u32, u32) = (64 << 10, 1 << 20);
/// The quiet time before an HTTP/2 connection is pinged, and the time limit of the reply. It finds clients that are
/// gone although none of their streams waits for them.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// The limits of connections.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    connections: ConnectionBound,
    head: usize,
    fields: usize,
    timeouts: Timeouts,
}

impl Bounds {
    /// Creates the limits for `connections` connections, counted over all listeners that clone them. Hyper's limit of a
    /// head is somewhat larger than that of `limits`: the stack refuses heads in between.
    pub(crate) fn new(limits: &LimitSettings, connections: usize) -> Self {
        let framing = 4 * limits.header_count as usize + (16 << 10);
        Bounds {
            connections: ConnectionBound::new(connections),
            head: size(limits.headers).saturating_add(size(limits.uri)).saturating_add(framing),
            fields: limits.header_count as usize,
            timeouts: Timeouts {
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
        // `Connection` cuts slow heads: hyper's own timer also runs while a connection is merely idle.
        builder.header_read_timeout(None).max_header_size(self.head).max_buf_size(self.head.max(64 << 10));
        if self.fields > 100 {
            // A limit other than hyper's default costs an allocation per request.
            builder.max_headers(self.fields + 16);
        }
        builder
    }

    fn http2(&self, state: &Arc<ConnectionState>, websocket: bool) -> http2::Builder<Streams> {
        let mut builder = http2::Builder::new(Streams::new(state.clone(), self.timeouts.reading));
        let fields = u32::try_from(self.fields).unwrap_or(u32::MAX);
        // RFC 9113, section 6.5.2: each field counts for 32 bytes more than its own length.
        let head = u32::try_from(self.head).unwrap_or(u32::MAX).saturating_add(fields.saturating_mul(32));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_header_list_size(head)
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1);
        if websocket {
            builder.enable_connect_protocol();
        }
        builder
    }
}

/// The protocols of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The certificate, if the listener speaks TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// A client without TLS may begin with HTTP/2 at once (RFC 9113, section 3.3).
    pub(crate) h2c: bool,
    /// WebSocket streams may come over HTTP/2 (RFC 8441), in addition to HTTP/1.1.
    pub(crate) websocket: bool,
    /// The peers that send a PROXY protocol header.
    pub(crate) proxies: ProxyPeers,
}

#[derive(Debug)]
pub(crate) struct Listener(Acceptor);

impl Listener {
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        let acceptor = Acceptor::bind(addr, BACKLOG)?;
        // Accepted sockets inherit the option. A kernel that does not know it keeps its own limits.
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(acceptor.socket()).set_tcp_notsent_lowat(UNSENT);
        Ok(Listener(acceptor))
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    /// Accepts connections and serves each with a clone of `stack`, until `connections` close.
    pub(crate) async fn serve<S, B>(
        self,
        stack: S,
        bounds: Bounds,
        Entry { certificate, h2c, websocket, proxies }: Entry,
        connections: Arc<Connections>,
    ) where
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        // Over TLS an answer would need a handshake first.
        let answer = if certificate.is_none() { builtin::full() } else { Vec::new() };
        let bound = bounds.connections.clone().with_answer(answer);
        let entered = connections.clone();
        let bounds = Arc::new(bounds);
        let connection = move |mut stream, peer: SocketAddr, permit| {
            let handle = entered.enter();
            let stack = stack.clone();
            let certificate = certificate.clone();
            let bounds = bounds.clone();
            let proxies = Some(&proxies).filter(|proxies| proxies.has(peer.ip())).cloned();
            // Boxed, so that a connection's task has the size of the path that it takes and not of the largest one.
            async move {
                if let Some(proxies) = proxies {
                    // No call depends on its client's address.
                    let introduced = Box::pin(is_introduced(&mut stream, peer, &proxies, &handle)).await;
                    if !introduced {
                        return;
                    }
                }
                match certificate {
                    None if h2c && Box::pin(begins_http2(&stream, &bounds, &handle)).await => {
                        let stream = CoalescedWrites::new(stream);
                        let stream = Counted::new(stream, handle.state.clone(), permit);
                        end(Box::pin(http2(stream, stack, handle, &bounds, websocket)).await);
                    }
                    None => {
                        let stream = CoalescedWrites::new(stream);
                        let stream = Counted::new(stream, handle.state.clone(), permit);
                        end(Box::pin(http1(stream, stack, handle, &bounds)).await);
                    }
                    Some(certificate) => {
                        let stream = Counted::new(stream, handle.state.clone(), permit);
                        Box::pin(secured(stream, &certificate, stack, handle, &bounds, websocket)).await;
                    }
                }
            }
        };
        self.0.serve(bound, connections.tasks(), connections.closed(), connection).await;
    }
}

/// Reads the PROXY protocol header of a proxy's connection. Returns false for a missing or bad header.
async fn is_introduced(
    stream: &mut TcpStream,
    peer: SocketAddr,
    proxies: &ProxyPeers,
    handle: &ConnectionHandle,
) -> bool {
    tokio::select! {
        client = proxies.client(stream, peer) => client.is_some(),
        () = handle.connections.closed() => false,
    }
}

/// Reports whether a client begins with the HTTP/2 preface, which stays unread.
async fn begins_http2(stream: &TcpStream, bounds: &Bounds, handle: &ConnectionHandle) -> bool {
    /// The first and the longest pause while a preface is incomplete; growing, so that stuck clients cost little.
    const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];
    let peeking = async {
        let [mut pause, longest] = PAUSES;
        let mut first = [0; PREFACE.len()];
        loop {
            match stream.peek(&mut first).await {
                Ok(0) | Err(_) => return false,
                Ok(length) if !PREFACE.starts_with(&first[..length]) => return false,
                Ok(length) if length == PREFACE.len() => return true,
                Ok(_) => {
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(longest);
                }
            }
        }
    };
    tokio::select! {
        found = tokio::time::timeout(bounds.timeouts.idle, peeking) => found.unwrap_or_default(),
        () = handle.connections.closed() => false,
    }
}

async fn secured<T, S, B>(
    stream: T,
    certificate: &Certificate,
    stack: S,
    handle: ConnectionHandle,
    bounds: &Bounds,
    websocket: bool,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send,
{
    let connections = handle.connections.clone();
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(HANDSHAKE, certificate.accept(stream)) => accepted,
        () = connections.closed() => return,
    };
    let stream = match accepted {
        Ok(Ok(Some(stream))) => stream,
        Ok(Ok(None)) => return tracing::debug!("answered a check of the certificate authority"),
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    if stream.get_ref().1.alpn_protocol() == Some(H2) {
        end(Box::pin(http2(stream, stack, handle, bounds, websocket)).await);
    } else {
        end(Box::pin(http1(stream, stack, handle, bounds)).await);
    }
}

async fn http1<T, S, B>(stream: T, stack: S, handle: ConnectionHandle, bounds: &Bounds) -> End
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let io = TokioIo::new(Guarded::http1(stream, handle.state.clone(), bounds.head));
    let service = ConnectionService::new(stack, handle.connections.clone(), handle.state.clone());
    serve(bounds.http1().serve_connection(io, service).with_upgrades(), handle, bounds).await
}

async fn http2<T, S, B>(
    stream: T,
    stack: S,
    handle: ConnectionHandle,
    bounds: &Bounds,
    websocket: bool,
) -> End
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send,
{
    let io = TokioIo::new(Guarded::http2(stream, handle.state.clone()));
    let service = ConnectionService::of_streams(stack, handle.connections.clone(), handle.state.clone());
    let connection = bounds.http2(&handle.state, websocket).serve_connection(io, service);
    // Its streams are separate tasks, whose frames the connection writes together.
    Deferred::new(serve(connection, handle, bounds)).await
}

async fn serve<C: Serve>(connection: C, handle: ConnectionHandle, bounds: &Bounds) -> End {
    Connection::new(connection, handle, bounds.timeouts).await
}

/// Logs the end of a connection, if that helps to find a fault.
fn end(end: End) {
    match end {
        End::Done(Ok(())) | End::Idle => {}
        End::Done(Err(error)) => tracing::debug!(%error, "connection failed"),
        End::SlowReader => tracing::debug!("connection cut: its client read the answer too slowly"),
        End::SlowHead => tracing::debug!("connection closed: its head arrived too slowly"),
        End::Flood => tracing::debug!("connection closed: its client sent too many control frames"),
        End::Cut => tracing::debug!("connection cut"),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

use super::body::NodeBody;
use super::connection::{H2Connection, NoHead, StreamGuard};
use super::request::{GrpcRequest, GrpcTemplate};
use crate::nodes::in_flight::InFlightGuard;
use crate::nodes::node::Node;
use crate::nodes::progress::CallProgress;
use crate::nodes::retry::TryFailure;
use crate::nodes::url::NodeUrl;
use crate::transport::connect::{Connector, NodeSocket};
use bytes::Bytes;
use http::Response;
use http_body::Body;
use parking_lot::Mutex;
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::tally::Transport;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const ALPN: &[u8] = b"h2";

/// A client of one node for gRPC calls.
pub(crate) struct H2Client {
    node: Arc<Node>,
    connector: Connector,
    template: GrpcTemplate,
    open: Mutex<Vec<Arc<H2Connection>>>,
    /// Held while a connection is made. Calls that need one in the meantime wait for it.
    dialing: tokio::sync::Mutex<()>,
    failures: AtomicU64,
    /// The timeout of a new connection, including DNS, TCP and TLS.
    connect: Duration,
    clock: Arc<dyn Clock>,
}

/// The head of a node's answer. The call counts as in flight until this is dropped.
pub(crate) struct H2Answer {
    pub(crate) response: Response<NodeBody>,
    pub(crate) slot: H2Slot,
}

/// The counts of a call at its node and on its connection.
#[derive(Debug)]
pub(crate) struct H2Slot {
    _stream: StreamGuard,
    _call: InFlightGuard<Arc<AtomicUsize>>,
}

impl AsRef<Node> for H2Client {
    fn as_ref(&self) -> &Node {
        &self.node
    }
}

impl H2Client {
    /// Creates a client of `node` at `url`. It connects before the first call, not earlier.
    pub(crate) fn new(node: Arc<Node>, url: &NodeUrl, connect: Duration, clock: Arc<dyn Clock>) -> Self {
        H2Client {
            connector: Connector::new(&node.config, url, ALPN),
            template: GrpcTemplate::new(&node.config, url),
            open: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            failures: AtomicU64::new(0),
            node,
            connect,
            clock,
        }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Sends a call once, and returns the head of its answer.
    pub(crate) async fn send<M>(
        &self,
        call: GrpcRequest<'_, M>,
        progress: &mut CallProgress<'_>,
    ) -> Result<H2Answer, TryFailure>
    where
        M: Body<Data = Bytes, Error = h2::Error> + Unpin + Send + 'static,
    {
        progress.node = Some(self.node.index);
        // A node that is slow to connect delays the call.
        progress.waits_since = Some(self.clock.elapsed());
        let in_flight = InFlightGuard::new(self.node.in_flight.clone());
        let mut head = self.template.head(&call).ok_or(Fault::unsent(Cause::Undecodable))?;
        progress.tries.write_trace(head.headers_mut());
        let (connection, stream, was_open) = match self.free() {
            Some((connection, stream)) => (connection, stream, true),
            None => Box::pin(self.connected()).await?,
        };
        let sent_before = progress.sent;
        let began = self.clock.elapsed();
        progress.begin(began);
        progress.set_sent(true);
        match connection.send(head, call.messages).await {
            Ok(response) => {
                self.node.health.by(Transport::Grpc).record_reachable();
                let now = self.clock.elapsed();
                progress.arrive(now, true);
                Ok(H2Answer { response, slot: H2Slot { _stream: stream, _call: in_flight } })
            }
            Err(NoHead::Failed(error)) if is_processed(&error) => Err(Fault::sent(Cause::Broken).into()),
            Err(_) => {
                progress.set_sent(sent_before);
                // The node had closed or was closing it, which says nothing about the node.
                let closed = TryFailure::IdleConnectionClosed { sent: false };
                Err(if was_open { closed } else { Fault::unsent(Cause::Broken).into() })
            }
        }
    }

    fn free(&self) -> Option<(Arc<H2Connection>, StreamGuard)> {
        let open = self.open.lock();
        open.iter().find_map(|connection| Some((connection.clone(), connection.take()?)))
    }

    /// Takes a stream of a new connection, which this call or an earlier one makes.
    async fn connected(&self) -> Result<(Arc<H2Connection>, StreamGuard, bool), Fault> {
        let failures = self.failures.load(Relaxed);
        let _turn = self.dialing.lock().await;
        if let Some((connection, stream)) = self.free() {
            return Ok((connection, stream, true));
        }
        let unreachable = Fault::unsent(Cause::Connect);
        // The previous call has just tried.
        if self.failures.load(Relaxed) != failures {
            return Err(unreachable);
        }
        match self.dial().await {
            Ok(connection) => {
                self.node.health.by(Transport::Grpc).record_reachable();
                let connection = Arc::new(connection);
                let stream = connection.take().ok_or(Fault::unsent(Cause::Broken))?;
                let mut open = self.open.lock();
                open.retain(|connection| !connection.is_closed());
                open.push(connection.clone());
                Ok((connection, stream, false))
            }
            Err(error) => {
                self.failures.fetch_add(1, Relaxed);
                self.node.health.by(Transport::Grpc).record_unreachable(self.clock.elapsed());
                self.node.note_unreachable(&error);
                tracing::debug!(node = %self.node.config.name(), "no connection: {error}");
                Err(unreachable)
            }
        }
    }

    async fn dial(&self) -> io::Result<H2Connection> {
        let connection = async {
            match self.connector.connect(self.connect).await? {
                NodeSocket::Plain(tcp) => {
                    keep_alive(tcp.get_ref());
                    H2Connection::handshake(tcp).await
                }
                NodeSocket::Tls(tls) if tls.get_ref().1.alpn_protocol() == Some(ALPN) => {
                    keep_alive(tls.get_ref().0);
                    H2Connection::handshake(*tls).await
                }
                NodeSocket::Dialed(dialed) => H2Connection::handshake(dialed).await,
                NodeSocket::DialedTls(tls) if tls.get_ref().1.alpn_protocol() == Some(ALPN) => {
                    H2Connection::handshake(*tls).await
                }
                NodeSocket::Tls(_) | NodeSocket::DialedTls(_) => {
                    Err(io::Error::other("the node does not offer HTTP/2"))
                }
            }
        };
        tokio::time::timeout(self.connect, connection).await?
    }
}

/// Reports whether the node may have processed a call that ended with this error. It has not if it says so (RFC 9113,
/// section 8.7): with REFUSED_STREAM, or with a GOAWAY that names an earlier stream as its last.
fn is_processed(error: &h2::Error) -> bool {
    let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    !(error.is_remote() && (error.is_go_away() || (error.is_reset() && is_refused)))
}

/// Lets TCP detect that the node is gone: by probes when the connection is quiet, and by sent bytes that stay
/// unacknowledged.
fn keep_alive(tcp: &tokio::net::TcpStream) {
    let probes = socket2::TcpKeepalive::new().with_time(Duration::from_secs(20));
    let probes = probes.with_interval(Duration::from_secs(5)).with_retries(4);
    let socket = socket2::SockRef::from(tcp);
    let applied = socket.set_tcp_keepalive(&probes);
    #[cfg(target_os = "linux")]
    let applied = applied.and(socket.set_tcp_user_timeout(Some(Duration::from_secs(40))));
    if let Err(error) = applied {
        tracing::debug!(%error, "TCP keep-alive could not be set for a connection to a node");
    }
}

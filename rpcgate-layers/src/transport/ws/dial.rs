use super::handshake::NodeHandshake;
use crate::nodes::node::Node;
use crate::nodes::url::NodeUrl;
use crate::transport::connect::{Connector, NodeSocket};
use crate::transport::h1::template::node_headers;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::NodeTries;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// The maximum size of a node's response head, in bytes.
const HEAD: usize = 64 << 10;

pub(crate) struct StreamClient {
    node: Arc<Node>,
    connector: Connector,
    target: Uri,
    headers: HeaderMap,
}

pub(crate) struct NodeStream {
    pub(crate) io: TokioIo<Upgraded>,
    pub(crate) protocol: Option<HeaderValue>,
    pub(crate) node: Arc<Node>,
}

impl AsRef<Node> for StreamClient {
    fn as_ref(&self) -> &Node {
        &self.node
    }
}

impl StreamClient {
    pub(crate) fn new(node: Arc<Node>, url: &NodeUrl) -> Self {
        StreamClient {
            connector: Connector::new(&node.config, url, b"http/1.1"),
            target: url.target(),
            headers: node_headers(&node.config, url),
            node,
        }
    }

    /// Opens a stream, as the last of `tries`, and offers these sub-protocols. `limit` applies to the connection and to
    /// the handshake separately.
    pub(crate) async fn open(
        &self,
        protocols: &[HeaderValue],
        tries: &NodeTries,
        limit: Duration,
    ) -> Result<NodeStream, Fault> {
        let socket = self.connector.connect(limit).await.map_err(|error| {
            tracing::debug!(node = %self.node.config.name(), "no connection for a stream: {error}");
            self.node.note_unreachable(&error);
            Fault::unsent(Cause::Connect)
        })?;
        let opening = async {
            match socket {
                NodeSocket::Plain(tcp) => self.shake_hands(tcp, protocols, tries).await,
                NodeSocket::Tls(tls) => self.shake_hands(tls, protocols, tries).await,
                NodeSocket::Dialed(dialed) => self.shake_hands(dialed, protocols, tries).await,
                NodeSocket::DialedTls(tls) => self.shake_hands(tls, protocols, tries).await,
            }
        };
        timeout(limit, opening).await.unwrap_or(Err(Fault::sent(Cause::Timeout)))
    }

    async fn shake_hands<T>(
        &self,
        socket: T,
        protocols: &[HeaderValue],
        tries: &NodeTries,
    ) -> Result<NodeStream, Fault>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: hyper::Error| {
            tracing::debug!(node = %self.node.config.name(), "the handshake of a stream failed: {error}");
            Fault::sent(if error.is_parse() { Cause::Undecodable } else { Cause::Broken })
        };
        let handshake = NodeHandshake::new().map_err(|_| Fault::unsent(Cause::Connect))?;
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        handshake.write(protocols, request.headers_mut());
        tries.write_trace(request.headers_mut());

        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD);
        let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await.map_err(broken)?;
        // Both are polled here, so that no task remains when the client gives up.
        let mut connection = pin!(connection.with_upgrades());
        let mut is_over = false;
        let mut sending = pin!(sender.send_request(request));
        let mut response = tokio::select! {
            biased;
            response = &mut sending => response.map_err(broken)?,
            ended = &mut connection => {
                is_over = true;
                ended.map_err(broken)?;
                sending.await.map_err(broken)?
            }
        };
        let protocol = handshake.check(&response, protocols).map_err(|bad| {
            tracing::debug!(node = %self.node.config.name(), "no stream: {bad}");
            self.node.note_failure(&bad);
            Fault::sent(match bad {
                super::BadNodeHandshake::Status(status) => Cause::Status(status.as_u16()),
                _ => Cause::Undecodable,
            })
        })?;
        let upgraded = hyper::upgrade::on(&mut response);
        if !is_over {
            // The connection hands its socket over when it ends.
            connection.await.map_err(broken)?;
        }
        let io = TokioIo::new(upgraded.await.map_err(broken)?);
        Ok(NodeStream { io, protocol, node: self.node.clone() })
    }
}

//! A client of one node over HTTP/1.1.

mod batcher;

use self::batcher::{BatchedTry, NodeBatcher};
use super::answer::{AnswerBody, NodeAnswer};
use super::body::{BodySource, NodeBody};
use super::collect::{Collected, collect};
use super::connection::NodeConnection;
use super::decode::{Coding, decode};
use super::headers::{is_framed, strip};
use super::idle::{IdleConnections, IdleTime, RestingConnection};
use super::request::NodeRequest;
use super::template::RequestTemplate;
use crate::coalesce::Coalesce;
use crate::nodes::batching::{BatchingCounts, BatchingPolicy};
use crate::nodes::in_flight::InFlightGuard;
use crate::nodes::node::Node;
use crate::nodes::progress::CallProgress;
use crate::nodes::retry::TryFailure;
use crate::nodes::retry_budget::RetryBalance;
use crate::nodes::url::NodeUrl;
use crate::transport::connect::{Connector, NodeSocket};
use http::{Method, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::tally::Transport;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct ClientLimits {
    /// The timeout of a new connection, including DNS, TCP and TLS.
    pub(crate) connect: Duration,
    /// The wait limit for each piece of a streamed answer.
    pub(crate) read: Duration,
    pub(crate) max_idle: usize,
    pub(crate) idle: Duration,
    /// The rest before a call without a number.
    pub(crate) rest: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    Idle,
    No,
}

/// The maximum idle time of a connection for a broadcast. The node may have closed an older one, and then it is unknown
/// whether the broadcast got through. A new connection is safer.
const MAX_IDLE_FOR_BROADCAST: Duration = Duration::from_secs(2);

pub(crate) struct Client {
    node: Arc<Node>,
    connector: Connector,
    template: RequestTemplate,
    idle: Arc<IdleConnections>,
    limits: ClientLimits,
    clock: Arc<dyn Clock>,
    /// Gathers calls, if they may be sent in arrays.
    batcher: Option<NodeBatcher>,
}

impl AsRef<Node> for Client {
    fn as_ref(&self) -> &Node {
        &self.node
    }
}

impl Client {
    /// Creates a client of `node` at `url`. It connects before the first request, not earlier.
    pub(crate) fn new(node: Arc<Node>, url: &NodeUrl, limits: ClientLimits, clock: Arc<dyn Clock>) -> Self {
        Client {
            connector: Connector::new(&node.config, url, b"http/1.1"),
            template: RequestTemplate::new(&node.config, url),
            idle: Arc::new(IdleConnections::new(limits.max_idle, limits.rest, limits.idle)),
            node,
            limits,
            clock,
            batcher: None,
        }
    }

    /// Gathers the calls of several clients into arrays, which `arrays` sends to the same node. After a failed array
    /// its calls are sent alone while `retries` last.
    pub(crate) fn with_batching(
        mut self,
        arrays: Client,
        policy: BatchingPolicy,
        retries: &Arc<RetryBalance>,
    ) -> Self {
        self.batcher = NodeBatcher::new(arrays, policy, retries.clone());
        self
    }

    pub(crate) fn idle(&self) -> usize {
        self.idle.len() + self.batcher.as_ref().map_or(0, NodeBatcher::idle)
    }

    pub(crate) fn arrays(&self) -> BatchingCounts {
        self.batcher.as_ref().map(NodeBatcher::counts).unwrap_or_default()
    }

    pub(crate) fn sweep(&self, now: Duration) {
        self.idle.sweep(now);
        if let Some(batcher) = &self.batcher {
            batcher.sweep(now);
        }
    }

    /// Sends `request` once, in an array with others if allowed, and reads its answer. The buffered part of the answer
    /// is taken from `memory`.
    pub(crate) async fn send(
        &self,
        request: &NodeRequest,
        memory: &mut MemoryPermit,
        reuse: Reuse,
        progress: &mut CallProgress<'_>,
    ) -> Result<NodeAnswer, TryFailure> {
        let mut has_yielded = false;
        if let (Some(batcher), Some(call), Reuse::Idle) = (&self.batcher, &request.batchable, reuse) {
            progress.node = Some(self.node.index);
            progress.is_shared_failure = false;
            let guard = InFlightGuard::new(&*self.node.in_flight);
            // Boxed, so that the future of calls that are sent alone does not grow.
            match Box::pin(batcher.send(call, memory, progress)).await {
                BatchedTry::Ended(result) => return result,
                BatchedTry::Alone { has_yielded: yielded } => has_yielded = yielded,
            }
            drop(guard);
        }
        self.send_alone(request, memory, reuse, has_yielded, progress).await
    }

    /// Sends `request` alone. `has_yielded`: the call has just yielded to the runtime.
    async fn send_alone(
        &self,
        request: &NodeRequest,
        memory: &mut MemoryPermit,
        reuse: Reuse,
        has_yielded: bool,
        progress: &mut CallProgress<'_>,
    ) -> Result<NodeAnswer, TryFailure> {
        progress.node = Some(self.node.index);
        progress.is_shared_failure = false;
        let _guard = InFlightGuard::new(&*self.node.in_flight);
        if reuse == Reuse::Idle && !has_yielded {
            // Yields so that the runtime polls the sockets. Then a closed connection is noticed before a request is
            // written to it, which matters because a written broadcast is never sent again. Calls that join in the
            // meantime are written one after another, which wakes the node once and not for each of them.
            Coalesce::default().await;
        }
        let began = self.clock.elapsed();
        progress.begin(began);
        let max = if request.broadcast { MAX_IDLE_FOR_BROADCAST } else { Duration::MAX };
        let time = IdleTime { max, has_number: request.number.is_some() };
        let idle = if reuse == Reuse::Idle { self.idle.take(began, time) } else { None };
        let was_idle = idle.is_some();
        let mut connection = match idle {
            Some(connection) => connection,
            // Boxed: connecting is rare, and its state would make the future of every call larger.
            None => Box::pin(self.connect()).await?,
        };
        let mut written = self.template.request(request).ok_or(Fault::unsent(Cause::Undecodable))?;
        progress.tries.write_trace(written.headers_mut());
        let sent_before = progress.sent;
        progress.set_sent(true);
        let sending = connection.send(written);
        let response = match sending.await {
            Ok(response) => response,
            Err(mut error) => {
                let is_unsent = error.take_message().is_some();
                if is_unsent {
                    progress.set_sent(sent_before);
                }
                return Err(if !is_unsent && error.into_error().is_parse() {
                    Fault::sent(Cause::Undecodable).into()
                } else if was_idle {
                    TryFailure::IdleConnectionClosed { sent: !is_unsent }
                } else {
                    Fault { cause: Cause::Broken, sent: !is_unsent }.into()
                });
            }
        };
        // RFC 9110 section 15.5.9: the node gave up waiting for a request just before this one came.
        if was_idle && response.status() == StatusCode::REQUEST_TIMEOUT {
            return Err(TryFailure::IdleConnectionClosed { sent: true });
        }
        self.node.health.by(Transport::Http).record_reachable();
        self.read(request, memory, connection, progress, response).await
    }

    /// Takes back the connection of an answer that its reader has accepted. All other connections are closed, because
    /// the rest of the node's bytes may be the answer to another call.
    pub(crate) fn give_back(&self, connection: Option<RestingConnection>) {
        if let Some(connection) = connection {
            self.idle.put(connection);
        }
    }

    async fn connect(&self) -> Result<Box<NodeConnection>, Fault> {
        let connection = match self.connector.connect(self.limits.connect).await {
            Ok(NodeSocket::Plain(tcp)) => NodeConnection::handshake(tcp).await,
            Ok(NodeSocket::Tls(tls)) => NodeConnection::handshake(tls).await,
            Ok(NodeSocket::Dialed(dialed)) => NodeConnection::handshake(dialed).await,
            Ok(NodeSocket::DialedTls(tls)) => NodeConnection::handshake(tls).await,
            Err(error) => Err(error),
        };
        match connection {
            Ok(connection) => {
                self.node.health.by(Transport::Http).record_reachable();
                Ok(connection)
            }
            Err(error) => {
                self.node.health.by(Transport::Http).record_unreachable(self.clock.elapsed());
                self.node.note_unreachable(&error);
                tracing::debug!(node = %self.node.config.name(), "no connection: {error}");
                Err(Fault::unsent(Cause::Connect))
            }
        }
    }

    async fn read(
        &self,
        request: &NodeRequest,
        memory: &mut MemoryPermit,
        mut connection: Box<NodeConnection>,
        progress: &mut CallProgress<'_>,
        response: Response<Incoming>,
    ) -> Result<NodeAnswer, TryFailure> {
        let (mut head, mut incoming) = response.into_parts();
        let undecodable = Fault::sent(Cause::Undecodable);
        // No request offers another protocol.
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(undecodable.into());
        }
        let coding = Coding::of(&head.headers).ok_or(undecodable)?;
        let framed = is_framed(&head.headers, incoming.size_hint().exact());
        if let Some(keep_alive) = strip(&mut head.headers, request.method == Method::HEAD) {
            connection.set_keep_alive(keep_alive);
        }
        // By definition these answers have no body. If the node sends one nevertheless, it would become the next
        // answer.
        let is_bodiless = request.method == Method::HEAD
            || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let has_numbers = connection.has_numbers();
        let is_reused = connection.is_reused;
        let mut resting = None;
        let limit = if coding == Coding::Identity { request.buffer } else { request.max };
        let body = match collect(&mut connection, &mut incoming, limit, memory).await? {
            Collected::Complete(body) => {
                let now = self.clock.elapsed();
                progress.arrive(now, true);
                connection.note_number(&body, request.number);
                if !is_bodiless {
                    resting = Some(RestingConnection { connection, since: now });
                }
                AnswerBody::Complete(match coding {
                    Coding::Identity => body,
                    // Boxed, because requests offer no coding.
                    coding => Box::pin(decode(coding, body, request.max, memory)).await?,
                })
            }
            Collected::Prefix(_) if coding != Coding::Identity => {
                return Err(Fault::sent(Cause::Oversize).into());
            }
            Collected::Prefix(_) if !framed => return Err(undecodable.into()),
            Collected::Prefix(prefix) => {
                connection.note_number(&prefix, request.number);
                progress.arrive(self.clock.elapsed(), false);
                let source = BodySource {
                    connection,
                    idle: self.idle.clone(),
                    clock: self.clock.clone(),
                    _permit: progress.permit.take(),
                    _guard: InFlightGuard::new(self.node.in_flight.clone()),
                };
                let rest = Box::new(NodeBody::new(incoming, source, self.limits.read));
                AnswerBody::Larger { prefix, rest }
            }
        };
        Ok(NodeAnswer {
            node: self.node.index,
            status: head.status,
            headers: head.headers,
            body,
            framed,
            has_numbers,
            is_reused,
            connection: resting,
        })
    }
}

#[cfg(test)]
mod tests;

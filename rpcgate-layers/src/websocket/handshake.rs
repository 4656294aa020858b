//! The end of the handshake admission: opens a stream to a node, then answers the client.

use super::hold::StreamHold;
use super::limits::StreamLimits;
use super::messages::{DecideCalls, MessageRules, Messages};
use super::open_streams::OpenStreams;
use super::run::OpenStream;
use crate::call::join::join;
use crate::nodes::Pools;
use crate::nodes::error::NodeRequestError;
use crate::request::authenticate::key_of;
use crate::request::message::{Authenticated, PendingResponse};
use crate::spawn::Spawn;
use crate::transport::ws::dial::NodeStream;
use crate::transport::ws::{BadHandshake, ClientHandshake};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rpcgate_core::call::{Call, CallState, Calls, Entry, Payload, Served, Settled};
use rpcgate_core::chain::Dialect;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::{BackendFailure, Refusal};
use rpcgate_core::stream_tally::StreamTally;
use rpcgate_core::tally::Tally;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tower_service::Service;

/// The maximum time for the answer to a handshake to leave.
const UPGRADE: Duration = Duration::from_secs(10);

/// The end of the handshake stack. It returns the handshake, which is answered afterwards.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admitted;

impl Service<Calls<Served>> for Admitted {
    type Response = Calls<Served>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<Served>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<Served>) -> Self::Future {
        ready(Ok(calls))
    }
}

#[derive(Debug)]
pub(crate) struct StreamContext {
    pub(crate) pools: Arc<ArcSwap<Pools>>,
    pub(crate) streams: Arc<OpenStreams>,
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) limits: StreamLimits,
    pub(crate) rules: MessageRules,
}

/// Opens streams: the innermost service of the [WebSocket stack](crate::stack::websocket_stack).
///
/// `H` is the stack for handshakes, and `M` the one for the calls in a message.
#[derive(Clone, Debug)]
pub struct OpenStreamService<H, M> {
    handshakes: H,
    messages: M,
    context: Arc<StreamContext>,
}

impl<H, M> OpenStreamService<H, M> {
    pub(crate) fn new(handshakes: H, messages: M, context: StreamContext) -> Self {
        OpenStreamService { handshakes, messages, context: Arc::new(context) }
    }
}

impl<B, H, M> Service<Authenticated<B>> for OpenStreamService<H, M>
where
    B: Send + 'static,
    H: Service<Calls, Response = Calls<Served>, Error = Infallible>,
    H::Future: Send + 'static,
    M: DecideCalls + Clone + 'static,
{
    type Response = PendingResponse;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<PendingResponse, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.handshakes.poll_ready(cx)
    }

    fn call(&mut self, known: Authenticated<B>) -> Self::Future {
        let Authenticated { mut request, mut tally, .. } = known;
        let can_upgrade = request.extensions().get::<OnUpgrade>().is_some();
        let handshake = match ClientHandshake::read(&request) {
            Ok(handshake) if can_upgrade => handshake,
            Ok(_) | Err(BadHandshake::NotWebSocket | BadHandshake::Version) => {
                return refused_unread(tally, Refusal::UpgradeRequired);
            }
            Err(_) => return refused_unread(tally, Refusal::BadHandshake),
        };
        let key = key_of(&request, tally.chain.adapter().key_sources()).map(Into::into);
        let upgrade = hyper::upgrade::on(&mut *request);
        let hold = request.extensions_mut().remove();
        drop(request);
        tally.entries.push(Entry::open(Call::unread(Payload::Unread)));
        let passing = self.handshakes.call(Calls::new(tally));
        let context = self.context.clone();
        let messages = Box::new(self.messages.clone());
        Box::pin(async move {
            let Ok(calls) = passing.await;
            let opening = Opening { handshake, key, upgrade, hold, messages, context };
            Ok(opening.open(calls.into_tally()).await)
        })
    }
}

fn refused_unread(
    tally: Box<Tally>,
    refusal: Refusal,
) -> BoxFuture<'static, Result<PendingResponse, Infallible>> {
    Box::pin(ready(Ok(PendingResponse::refused_unread(tally, refusal))))
}

struct Opening {
    handshake: ClientHandshake,
    key: Option<Box<str>>,
    upgrade: OnUpgrade,
    hold: Option<StreamHold>,
    messages: Box<dyn DecideCalls>,
    context: Arc<StreamContext>,
}

impl Opening {
    async fn open(self, mut tally: Box<Tally>) -> PendingResponse {
        let context = &self.context;
        if !tally.has_open() {
            return refused(tally);
        }
        let chain = tally.chain.name();
        let permit = match context.streams.admit(&tally.caller, self.key.as_deref(), chain, &context.limits) {
            Ok(permit) => permit,
            Err(refusal) => {
                tally.refuse(refusal);
                return refused(tally);
            }
        };
        let pool = context.pools.load().get(chain).cloned();
        let opened = match &pool {
            // The node is contacted before the client gets its answer, so that a dead node is an HTTP error.
            Some(pool) => {
                let project = Some(tally.caller.project);
                tally.tries.set_calls([0]);
                pool.open_stream(self.handshake.protocols(), project, &mut tally.tries).await
            }
            None => Err(NodeRequestError::Fault(Fault::unsent(Cause::NoNode))),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(NodeRequestError::Busy) => {
                tally.refuse(Refusal::Overloaded);
                return refused(tally);
            }
            Err(NodeRequestError::AtLimit) => {
                tally.refuse(Refusal::NodesAtLimit);
                return refused(tally);
            }
            Err(NodeRequestError::Fault(fault)) => return failed(tally, fault),
        };
        let windows = tally.windows_now();
        let memory = MemoryPermit::of_project(context.rules.memory_budget.clone(), tally.caller.project);
        let stream = match StreamTally::begin(tally) {
            Ok(stream) => stream,
            Err(tally) => return refused(tally),
        };
        let NodeStream { io: node, protocol, node: source } = opened;
        let response = self.handshake.response(protocol);
        let messages = Messages::new(stream, self.messages, context.rules.clone(), source.clone());
        let is_multiplexed = self.handshake.is_multiplexed();
        let upgrade = self.upgrade;
        let hold = self.hold;
        let context = self.context.clone();
        let spawn = self.context.spawn.clone();
        spawn.spawn(Box::pin(async move {
            // Without a connection, the account ends like that of a client that disconnected.
            if let Ok(Ok(client)) = timeout(UPGRADE, upgrade).await {
                let client = TokioIo::new(client);
                let stream = OpenStream::new(client, node, source, messages, permit, context.limits, memory);
                let stream = if is_multiplexed { stream.multiplexed() } else { stream };
                // A separate task, because this one holds much data that the stream does not need.
                context.spawn.spawn(match hold {
                    None => Box::pin(stream.run()),
                    Some(hold) => Box::pin(async move {
                        stream.run().await;
                        drop(hold);
                    }),
                });
            }
        }));
        let (head, ()) = response.into_parts();
        PendingResponse {
            status: head.status,
            headers: head.headers,
            is_json: false,
            body: Bytes::new(),
            windows: Some(windows),
            rated: true,
            refusal: None,
            ..PendingResponse::refused(Refusal::UpgradeRequired)
        }
    }
}

/// Returns the response to a handshake that a layer refused: that of an HTTP call.
fn refused(tally: Box<Tally>) -> PendingResponse {
    join(Calls::new(tally).at::<Settled>(), usize::MAX)
}

/// Returns the response to a handshake that no node accepts. A JSON-RPC error with status 200 would not tell the client
/// that no stream was opened.
fn failed(mut tally: Box<Tally>, fault: Fault) -> PendingResponse {
    let mut body = Vec::new();
    BackendFailure.write(Dialect::Rest, None, &mut body);
    for entry in &mut tally.entries {
        entry.state = CallState::Failed(fault);
        entry.bytes_out = body.len() as u32;
    }
    PendingResponse {
        status: BackendFailure.status(Dialect::Rest),
        headers: HeaderMap::new(),
        body: body.into(),
        tally: Some(tally),
        rated: true,
        refusal: None,
        ..PendingResponse::refused(Refusal::UpgradeRequired)
    }
}

//! The stacks: all layers in the required order, for every transport. Only this file defines the order.
//!
//! | stack | from → to | used by |
//! |---|---|---|
//! | [`gateway_stack`] | `http::Request` → `http::Response` of any transport | the listeners, embedders |
//! | [`http_stack`] | `http::Request` → `http::Response` | embedders |
//! | [`admission_stack`] | a request's head → an authenticated caller with a tally | HTTP requests, WebSocket handshakes, gRPC calls |
//! | [`call_stack`] | a parsed set of calls → a settled set | HTTP bodies, gRPC calls |
//! | [`websocket_stack`] | `http::Request` → `http::Response` | embedders |
//! | [`grpc_stack`] | `http::Request` → `http::Response` with trailers | embedders |
//! | [`handshake_stack`] | a handshake → an answered or refused one | WebSocket streams, once |
//! | [`message_stack`] | the calls in a message → those that may pass | WebSocket streams, for each message |
//!
//! Admission is the same for every transport; only the answer to a refused request differs
//! ([`AdmissionResponse`](crate::request::admission::AdmissionResponse)). A stream needs fewer of the call layers: the
//! plan windows count its handshake as the request, its messages are free, and the node that it is connected to pushes
//! its answers.

mod transports;

pub use transports::{GatewayBody, GatewayFuture, GatewayStack, gateway_stack};

use crate::call::batch::{Batch, BatchLayer};
use crate::call::body::BodyLimits;
use crate::call::cache::{BoundedReplies, Cache, CacheLayer};
use crate::call::closed::{Closed, ClosedLayer};
use crate::call::heavy::{Heavy, HeavyLayer};
use crate::call::lists::{Lists, ListsLayer};
use crate::call::overload::{Overload, OverloadLayer};
use crate::call::pace::{Pace, PaceLayer};
use crate::call::quota::{Quota, QuotaLayer};
use crate::call::served::{Served, ServedLayer};
use crate::call::window::{Window, WindowLayer};
use crate::gate::Gate;
use crate::grpc::{GrpcCounts, GrpcLimits, GrpcService, Pass};
use crate::nodes::Pools;
use crate::request::admit::Admit;
use crate::request::authenticate::{Authenticate, AuthenticateLayer};
use crate::request::policy::Enforce;
use crate::request::route::{Entrance, HeadLimits, Route, RouteLayer};
use crate::request::safeguard::{Safeguard, SafeguardLayer, Safeguarded};
use crate::request::scope::{ChainScope, ScopeLayer};
use crate::request::suspend::{Suspend, SuspendLayer};
use crate::respond::{Respond, RespondLayer};
use crate::spawn::{Spawn, TokioSpawn};
use crate::upstream::{ReplyLimits, Upstream};
use crate::websocket::{
    Admitted, Forward, MessageRules, OpenStreamService, OpenStreams, StreamContext, StreamLimits,
};
use arc_swap::ArcSwap;
use rpcgate_core::backend::directory::Directory;
use rpcgate_core::backend::reply_store::ReplyStore;
use rpcgate_core::chain::Chains;
use rpcgate_core::envelope::Limits;
use rpcgate_core::memory::MemoryBudget;
use rpcgate_core::overload::ChainLoads;
use rpcgate_core::plan::BatchCounts;
use rpcgate_core::tally::Accounting;
use std::sync::Arc;
use tower_layer::{Layer, layer_fn};

/// The parts of the stacks: backends and values, no configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Parts {
    /// The chains, replaced as a whole when one changes.
    pub chains: Arc<ArcSwap<Chains>>,
    /// The node pools of the chains.
    pub pools: Arc<ArcSwap<Pools>>,
    /// The directory of the keys.
    pub directory: Arc<dyn Directory>,
    /// Clock, counters and sink. The safeguard must [observe](Accounting::observed_by) the sink.
    pub accounting: Arc<Accounting>,
    /// The store of cached answers.
    pub replies: Arc<dyn ReplyStore>,
    /// The executor of calls that other clients wait for when their own client has left.
    pub spawn: Arc<dyn Spawn>,
    /// The memory budget of all bodies together.
    pub memory_budget: Arc<MemoryBudget>,
    /// Limits of a request's head.
    pub head: HeadLimits,
    /// Limits of a request's body.
    pub body: BodyLimits,
    /// Limits of the content of the body.
    pub envelope: Limits,
    /// The way in which a batch is counted.
    pub batch: BatchCounts,
    /// Limits of buffered and streamed answers.
    pub reply: ReplyLimits,
    /// Limits of gRPC calls.
    pub grpc: GrpcLimits,
    /// Counts of ended gRPC calls by result.
    pub grpc_counts: Arc<GrpcCounts>,
    /// The load of each chain, and its limits.
    pub loads: Arc<ChainLoads>,
    /// The heavy budget, shared with its sweeper.
    pub heavy: Arc<Heavy>,
    /// The pace, shared with its sweeper.
    pub pace: Arc<Pace>,
    /// The safeguard, shared with its sweeper.
    pub safeguard: Arc<Safeguard>,
    /// The open WebSocket streams, shared with the task that watches their keys.
    pub streams: Arc<OpenStreams>,
    /// The limits of WebSocket streams.
    pub stream_limits: StreamLimits,
}

impl Parts {
    /// Creates parts with default limits, 64 MiB of cached answers, 256 MiB of bodies, the default overload rules, and
    /// a safeguard without a rule.
    pub fn new(
        chains: Arc<ArcSwap<Chains>>,
        pools: Arc<ArcSwap<Pools>>,
        directory: Arc<dyn Directory>,
        accounting: Arc<Accounting>,
    ) -> Self {
        Parts {
            chains,
            pools,
            streams: OpenStreams::new(directory.clone(), accounting.clock.clone()),
            stream_limits: StreamLimits::default(),
            directory,
            accounting,
            replies: Arc::new(BoundedReplies::new(64 << 20)),
            spawn: Arc::new(TokioSpawn),
            memory_budget: MemoryBudget::new(256 << 20),
            head: HeadLimits::default(),
            body: BodyLimits::default(),
            envelope: Limits::default(),
            batch: BatchCounts::Request,
            reply: ReplyLimits::default(),
            grpc: GrpcLimits::default(),
            grpc_counts: Arc::default(),
            loads: Arc::default(),
            heavy: Arc::default(),
            pace: Arc::default(),
            safeguard: Arc::default(),
        }
    }
}

/// All layers of a WebSocket stream: the handshake passes them, and each message passes the [`MessageStack`].
pub type WebSocketStack =
    Respond<AdmissionStack<OpenStreamService<HandshakeStack<Admitted>, MessageStack<Forward>>>>;

/// All layers of a gRPC call.
pub type GrpcStack = GrpcService<AdmissionStack<Admit>, CallStack<Pass>>;

/// All layers of an HTTP request.
pub type HttpStack = Respond<AdmissionStack<Batch<CallStack>>>;

/// The layers before the body is read, around `S`.
pub type AdmissionStack<S> = Route<Authenticate<Safeguarded<Enforce<Enforce<S, ChainScope>, Suspend>>>>;

/// The layers for calls, in front of `S`, which sends the remaining ones to a node.
pub type CallStack<S = Upstream> =
    Gate<Overload<Window<Gate<Gate<Gate<Gate<Quota<Cache<S>>, Closed>, Heavy>, Pace>, Served>>>, Lists>;

/// The layers for the handshake of a stream, in front of `S`, which opens it.
pub type HandshakeStack<S> = Window<Gate<S, Served>>;

/// The layers for the messages of a stream, in front of `S`, which forwards them.
pub type MessageStack<S> = Gate<Gate<Gate<Gate<Gate<S, Closed>, Heavy>, Pace>, Served>, Lists>;

/// Returns the complete HTTP stack. All clones share the state of the backends; a server keeps one clone per
/// connection.
pub fn http_stack(parts: &Parts) -> HttpStack {
    let upstream = Upstream::new(parts.pools.clone()).with_limits(parts.reply);
    let layers = (
        // Every response leaves through this layer, so each has its id and its headers.
        RespondLayer::new(parts.accounting.clock.clone()),
        // After the admission the caller is known and its record is certain.
        layer_fn(|inner| admission_stack(parts, Entrance::HTTP, inner)),
        // The body is read and parsed once. After this layer there are only calls.
        BatchLayer::new()
            .with_body(parts.body)
            .with_envelope(parts.envelope)
            .with_answer(parts.reply.max)
            .with_memory_budget(parts.memory_budget.clone()),
    );
    layers.layer(call_stack(parts, upstream))
}

/// Returns the complete stack of WebSocket streams. It takes handshakes; each response has status 101, or 200 over
/// HTTP/2, after its stream is open. The requests must be upgradable, as those of a hyper server that serves
/// connections with upgrades, or HTTP/2 with the extended CONNECT of RFC 8441. Streams run as work of [`Parts::spawn`].
///
/// ```
/// use rpcgate_layers::{stack::websocket_stack, testing::Fixture};
/// use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let parts = Fixture::new().parts();
/// let no_handshake = http::Request::get("/ws/toy").header("apikey", "secret").body(()).unwrap();
/// let response = websocket_stack(&parts).oneshot(no_handshake).await.unwrap();
/// assert_eq!((response.status().as_u16(), &response.headers()["upgrade"]), (426, &"websocket".parse().unwrap()));
/// # });
/// ```
pub fn websocket_stack(parts: &Parts) -> WebSocketStack {
    let context = StreamContext {
        pools: parts.pools.clone(),
        streams: parts.streams.clone(),
        spawn: parts.spawn.clone(),
        limits: parts.stream_limits,
        rules: MessageRules {
            chains: parts.chains.clone(),
            envelope: parts.envelope,
            memory_budget: parts.memory_budget.clone(),
            calls_per_second: parts.stream_limits.calls_per_second,
            clock: parts.accounting.clock.clone(),
        },
    };
    let handshakes = handshake_stack(parts, Admitted);
    let messages = message_stack(parts, Forward);
    let layers = (
        // The reasons are those of `http_stack`. A handshake has no body.
        RespondLayer::new(parts.accounting.clock.clone()),
        layer_fn(|inner| admission_stack(parts, Entrance::WS, inner)),
    );
    layers.layer(OpenStreamService::new(handshakes, messages, context))
}

/// Returns the complete gRPC stack, over HTTP/2: the admission and the call stack of HTTP. The service around them
/// writes refusals in the format of gRPC, and sends calls to nodes that take gRPC.
pub fn grpc_stack(parts: &Parts) -> GrpcStack {
    let admission = admission_stack(parts, Entrance::GRPC, Admit);
    let pools = parts.pools.clone();
    let clock = parts.accounting.clock.clone();
    let streams = parts.streams.clone();
    GrpcService::new(admission, call_stack(parts, Pass), pools, clock, parts.memory_budget.clone(), streams)
        .with_limits(parts.grpc)
        .with_counts(parts.grpc_counts.clone())
}

/// Returns the layers before the body, in front of `inner`, for requests through `entrance`. Every tally has the
/// transport of the entrance from the start.
pub fn admission_stack<S>(parts: &Parts, entrance: Entrance, inner: S) -> AdmissionStack<S> {
    let layers = (
        // Costs nothing and needs no caller: a request for a wrong path is refused before any look-up.
        RouteLayer::new(parts.chains.clone()).with_limits(parts.head).with_entrance(entrance),
        // From here on there is a caller, and a tally that records the outcome in any case.
        AuthenticateLayer::new(parts.directory.clone(), parts.accounting.clone()),
        // A caller in a storm of refusals has smaller limits, and every answer from here on says so.
        SafeguardLayer::by(parts.safeguard.clone()),
        // Every request of a suspended tenant is refused before its body is read.
        SuspendLayer::new(),
        // A key's scope needs only the chain.
        ScopeLayer::new(),
    );
    layers.layer(inner)
}

/// Returns the layers for calls, in front of `upstream`: for the calls of an HTTP body, and for a gRPC call.
pub fn call_stack<S>(parts: &Parts, upstream: S) -> CallStack<S> {
    let Accounting { counters, clock, .. } = &*parts.accounting;
    let layers = (
        // A method that the project may not call must not use up its requests.
        ListsLayer::new(),
        // An overloaded chain refuses sets before they are counted or wait anywhere.
        OverloadLayer::by(parts.loads.clone(), clock.clone()),
        // The plan's requests, counted before anything that costs more.
        WindowLayer::new(counters.clone()).with_batches(parts.batch),
        // A request for a disabled chain counts as a request, but uses nothing else.
        ServedLayer::new(),
        // One call per minute of paced methods, before the budget that it would use.
        PaceLayer::by(parts.pace.clone()),
        // The heavy budget, checked even for closed methods.
        HeavyLayer::by(parts.heavy.clone()),
        // Closed methods are refused before they could be reserved.
        ClosedLayer::new(),
        // Cached answers cost too, so the quota comes before the cache.
        QuotaLayer::new(counters.clone()),
        // A cached answer is not fetched again, and identical calls of many callers are sent once.
        CacheLayer::new(parts.replies.clone(), clock.clone()).with_spawn(parts.spawn.clone()),
    );
    layers.layer(upstream)
}

/// Returns the layers for the handshake of a stream, in front of `open`. The handshake is the only entry of its tally,
/// a call that was not read. Refusals are answered as over HTTP ([`join`](crate::call::join::join)).
pub fn handshake_stack<S>(parts: &Parts, open: S) -> HandshakeStack<S> {
    let layers = (
        // A handshake is a request of the plan; the later messages of the stream are not.
        WindowLayer::new(parts.accounting.counters.clone()),
        // A request for a disabled chain counts as a request, but uses nothing else. It is refused by its status.
        ServedLayer::for_handshakes(),
    );
    layers.layer(open)
}

/// Returns the layers for the calls in a message of a stream, in front of `forward`. Messages are free, and the node
/// that the stream is connected to answers them: no windows, no quota, no cache. Refused calls reach `forward` as
/// refused entries, which [`Refusal::write_frame`](rpcgate_core::refusal::Refusal::write_frame) answers.
///
/// The layers decide by the chain and the caller in the message's tally. A stream outlives changes to both, so its
/// [`StreamTally`](rpcgate_core::stream_tally::StreamTally) is refreshed before each message.
pub fn message_stack<S>(parts: &Parts, forward: S) -> MessageStack<S> {
    let layers = (
        // The order and the reasons are those of `call_stack`.
        ListsLayer::new(),
        // A chain that is disabled while a stream is open gets no further calls.
        ServedLayer::new(),
        // Pace and budget protect nodes, whatever the transport of a call.
        PaceLayer::by(parts.pace.clone()),
        HeavyLayer::by(parts.heavy.clone()),
        // Closed methods are not forwarded.
        ClosedLayer::new(),
    );
    layers.layer(forward)
}

#[cfg(test)]
mod tests;

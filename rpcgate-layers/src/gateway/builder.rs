use super::{GatewayService, Housekeeping, Running};
use crate::call::body::BodyLimits;
use crate::grpc::GrpcLimits;
use crate::nodes::{BadUrl, NodeConfig, NodeUrl, Pool, PoolLimits};
use crate::request::route::HeadLimits;
use crate::request::safeguard::Safeguard;
use crate::spawn::{Spawn, TokioSpawn};
use crate::stack::{Parts, gateway_stack};
use crate::upstream::ReplyLimits;
use crate::websocket::StreamLimits;
use arc_swap::ArcSwap;
use futures_util::future::abortable;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::counters::{Counters, MemoryCounters};
use rpcgate_core::backend::directory::{Directory, MemoryDirectory, OpenDirectory};
use rpcgate_core::backend::reply_store::ReplyStore;
use rpcgate_core::backend::usage_sink::{MemoryUsageSink, UsageSink};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{Chain, ChainName, ChainOverrides};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::envelope::Limits;
use rpcgate_core::memory::MemoryBudget;
use rpcgate_core::overload::{ChainLoads, LoadRules};
use rpcgate_core::plan::{BatchCounts, Plan};
use rpcgate_core::safeguard::SafeguardRule;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::{Accounting, Transport, Transports};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A builder of a [`GatewayService`]. Every backend and limit has a default and a setter. Required are only the chains
/// with the URLs of their nodes, and the callers: keys, a directory, or [`open`](GatewayBuilder::open).
#[derive(Debug)]
#[must_use = "it builds nothing before `build`"]
pub struct GatewayBuilder {
    chains: Vec<GivenChain>,
    keys: Vec<(String, Plan)>,
    directory: Option<Arc<dyn Directory>>,
    clock: Arc<dyn Clock>,
    counters: Arc<dyn Counters>,
    usage_sink: Arc<dyn UsageSink>,
    reply_store: Option<Arc<dyn ReplyStore>>,
    spawn: Option<Arc<dyn Spawn>>,
    probe_interval: Duration,
    safeguard: Option<SafeguardRule>,
    overload: Option<LoadRules>,
    pool: PoolLimits,
    head: HeadLimits,
    body: BodyLimits,
    envelope: Limits,
    batch: BatchCounts,
    reply: ReplyLimits,
    streams: StreamLimits,
    grpc: GrpcLimits,
    memory: usize,
}

/// A chain and its nodes. An error is kept until the gateway is built, so that setters can be chained.
type GivenChain = (Arc<Chain>, Result<Vec<NodeConfig>, BadNode>);

#[derive(Debug)]
struct BadNode {
    url: String,
    error: BadUrl,
}

/// The reason why a gateway cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The gateway has no chain.
    NoChain,
    /// Two chains have this name.
    ChainTwice(ChainName),
    /// A chain has no node.
    NoNode(ChainName),
    /// The URL of a node cannot be used.
    NodeUrl {
        /// The chain of the node.
        chain: ChainName,
        /// The text of the URL.
        url: String,
        /// The error.
        error: BadUrl,
    },
    /// The gateway has no key and no directory, and is not open, so no request could pass.
    NoCaller,
    /// The gateway has both keys and a directory, which would hide the keys.
    KeysBesideDirectory,
    /// The gateway is built outside a tokio runtime, and no other [`Spawn`] was given.
    NoRuntime,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoChain => f.write_str("the gateway has no chain"),
            BuildError::ChainTwice(chain) => write!(f, "two chains are named {chain}"),
            BuildError::NoNode(chain) => write!(f, "the chain {chain} has no node"),
            BuildError::NodeUrl { chain, url, error } => write!(f, "a node of {chain}: {url}: {error}"),
            BuildError::NoCaller => f.write_str("the gateway has no key and no directory, and is not open"),
            BuildError::KeysBesideDirectory => {
                f.write_str("a directory replaces keys: give one or the other")
            }
            BuildError::NoRuntime => f.write_str("outside a tokio runtime a gateway needs a `Spawn`"),
        }
    }
}

impl std::error::Error for BuildError {}

impl GatewayBuilder {
    /// Creates a builder with the system's clock, everything in memory, discarded usage, and the default limits.
    pub fn new() -> Self {
        GatewayBuilder {
            chains: Vec::new(),
            keys: Vec::new(),
            directory: None,
            clock: Arc::new(SystemClock::new()),
            counters: Arc::<MemoryCounters>::default(),
            usage_sink: Arc::new(MemoryUsageSink::bounded(0)),
            reply_store: None,
            spawn: None,
            probe_interval: Duration::from_secs(5),
            safeguard: None,
            overload: Some(LoadRules::default()),
            pool: PoolLimits::default(),
            head: HeadLimits::default(),
            body: BodyLimits::default(),
            envelope: Limits::default(),
            batch: BatchCounts::Request,
            reply: ReplyLimits::default(),
            streams: StreamLimits::default(),
            grpc: GrpcLimits::default(),
            memory: 256 << 20,
        }
    }

    /// Serves a chain, as its adapter describes it, from the nodes at these URLs. A URL with the scheme `ws`, `wss`,
    /// `grpc` or `grpcs` is a node for WebSocket streams or gRPC calls; any other is one for HTTP. A transport without a
    /// node is not served. For a node with several addresses, see [`chain_with`](GatewayBuilder::chain_with).
    pub fn chain<U: Into<String>>(
        mut self,
        adapter: Arc<dyn Adapter>,
        nodes: impl IntoIterator<Item = U>,
    ) -> Self {
        let mut served = Transports::NONE;
        let node = |url: U| {
            let url = url.into();
            let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
            let transport = match scheme.as_deref() {
                Some("ws" | "wss") => Transport::Ws,
                Some("grpc" | "grpcs") => Transport::Grpc,
                _ => Transport::Http,
            };
            served = served.with(transport);
            NodeUrl::parse(&url, transport).map(NodeConfig::new).map_err(|error| BadNode { url, error })
        };
        let nodes = nodes.into_iter().map(node).collect();
        let chain = Chain::new(adapter, ChainOverrides::default(), served, Arc::default());
        self.chains.push((Arc::new(chain), nodes));
        self
    }

    /// Serves a chain that an operator has changed, from nodes with their own settings.
    pub fn chain_with(
        mut self,
        chain: impl Into<Arc<Chain>>,
        nodes: impl IntoIterator<Item = NodeConfig>,
    ) -> Self {
        self.chains.push((chain.into(), Ok(nodes.into_iter().collect())));
        self
    }

    /// Accepts a key on this plan. It is the only key of its project and tenant.
    pub fn key(mut self, key: impl Into<String>, plan: Plan) -> Self {
        self.keys.push((key.into(), plan));
        self
    }

    /// Looks keys up in this directory.
    pub fn directory(mut self, directory: Arc<dyn Directory>) -> Self {
        self.directory = Some(directory);
        self
    }

    /// Accepts requests without a key, all of them as one caller on this plan. It is meant for a gateway behind a proxy
    /// that authenticates its callers, or for the cache, batches and node pool alone.
    pub fn open(self, plan: Plan) -> Self {
        self.directory(Arc::new(OpenDirectory::new(Caller::of(0, plan))))
    }

    /// Sets the clock of windows, quotas and latencies. Default: the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the counters of windows and quotas. Default: in memory.
    pub fn counters(mut self, counters: Arc<dyn Counters>) -> Self {
        self.counters = counters;
        self
    }

    /// Sets the sink that receives the record of every request before its response leaves. Default: usage is metered
    /// and discarded.
    pub fn usage_sink(mut self, sink: Arc<dyn UsageSink>) -> Self {
        self.usage_sink = sink;
        self
    }

    /// Sets the store of cached answers. Default: 64 MiB in memory.
    pub fn reply_store(mut self, replies: Arc<dyn ReplyStore>) -> Self {
        self.reply_store = Some(replies);
        self
    }

    /// Sets the executor of background work. Default: tasks of the tokio runtime in which the gateway is built.
    pub fn spawn(mut self, spawn: Arc<dyn Spawn>) -> Self {
        self.spawn = Some(spawn);
        self
    }

    /// Sets the interval at which each node is probed. Default: 5 s.
    pub fn probe_interval(mut self, every: Duration) -> Self {
        self.probe_interval = every;
        self
    }

    /// Scales down the limits of keys that keep calling although they are refused. Default: no limits are scaled down.
    pub fn safeguard(mut self, rule: SafeguardRule) -> Self {
        self.safeguard = Some(rule);
        self
    }

    /// Sets the rules for when a chain is overloaded and whose calls are then refused first; `None` for no overload
    /// protection. Default: [`LoadRules::default`].
    pub fn overload(mut self, rules: impl Into<Option<LoadRules>>) -> Self {
        self.overload = rules.into();
        self
    }

    /// Sets the limits of every pool of nodes.
    pub fn pool_limits(mut self, limits: PoolLimits) -> Self {
        self.pool = limits;
        self
    }

    /// Sets the limits of a request's head.
    pub fn head_limits(mut self, limits: HeadLimits) -> Self {
        self.head = limits;
        self
    }

    /// Sets the limits of a request's body.
    pub fn body_limits(mut self, limits: BodyLimits) -> Self {
        self.body = limits;
        self
    }

    /// Sets the limits of the content of a body: its depth, and the calls of a batch.
    pub fn envelope_limits(mut self, limits: Limits) -> Self {
        self.envelope = limits;
        self
    }

    /// Sets how a batch is counted in the plan windows. Default: as one request.
    pub fn batch_counts(mut self, batch: BatchCounts) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the limits of buffered and streamed answers.
    pub fn reply_limits(mut self, limits: ReplyLimits) -> Self {
        self.reply = limits;
        self
    }

    /// Sets the limits of WebSocket streams.
    pub fn stream_limits(mut self, limits: StreamLimits) -> Self {
        self.streams = limits;
        self
    }

    /// Sets the limits of gRPC calls.
    pub fn grpc_limits(mut self, limits: GrpcLimits) -> Self {
        self.grpc = limits;
        self
    }

    /// Sets the memory budget of all bodies together, in bytes. Default: 256 MiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Builds the gateway and spawns its housekeeping, which stops when the last clone of the gateway is dropped.
    ///
    /// # Errors
    /// [`BuildError`] if a required part is missing or cannot be used.
    pub fn build(self) -> Result<GatewayService, BuildError> {
        let spawn: Arc<dyn Spawn> = match &self.spawn {
            Some(spawn) => spawn.clone(),
            None if tokio::runtime::Handle::try_current().is_err() => return Err(BuildError::NoRuntime),
            None => Arc::new(TokioSpawn),
        };
        let (gateway, housekeeping) = self.build_apart()?;
        let (work, handle) = abortable(housekeeping.run());
        spawn.spawn(Box::pin(async move {
            // It ends only together with the gateway.
            let _ = work.await;
        }));
        Ok(GatewayService { _running: Some(Arc::new(Running(handle))), ..gateway })
    }

    /// Builds the gateway and its housekeeping, which the embedder must run while the gateway serves.
    ///
    /// # Errors
    /// [`BuildError`] if a required part is missing or cannot be used.
    pub fn build_apart(self) -> Result<(GatewayService, Housekeeping), BuildError> {
        let directory = callers(self.keys, self.directory)?;
        let mut served: Vec<(Arc<Chain>, Arc<Pool>)> = Vec::new();
        for (chain, nodes) in self.chains {
            let name = chain.name();
            let nodes =
                nodes.map_err(|BadNode { url, error }| BuildError::NodeUrl { chain: name, url, error })?;
            if nodes.is_empty() {
                return Err(BuildError::NoNode(name));
            }
            if served.iter().any(|(other, _)| other.name() == name) {
                return Err(BuildError::ChainTwice(name));
            }
            let pool = Pool::new(chain.facts(), nodes, self.pool, self.clock.clone());
            pool.check_networks(chain.adapter());
            served.push((chain, pool));
        }
        if served.is_empty() {
            return Err(BuildError::NoChain);
        }
        let safeguard = Arc::new(Safeguard::by(self.safeguard));
        let accounting = Accounting::new(self.clock, self.counters, self.usage_sink);
        let chains = served.iter().map(|(chain, _)| chain.clone()).collect();
        let pools = served.iter().map(|(_, pool)| pool.clone()).collect();
        let mut parts = Parts::new(
            Arc::new(ArcSwap::from_pointee(chains)),
            Arc::new(ArcSwap::from_pointee(pools)),
            directory,
            Arc::new(accounting.observed_by(safeguard.clone())),
        );
        parts.safeguard = safeguard;
        parts.loads = Arc::new(ChainLoads::by(self.overload));
        parts.replies = self.reply_store.unwrap_or(parts.replies);
        parts.spawn = self.spawn.unwrap_or(parts.spawn);
        parts.memory_budget = MemoryBudget::new(self.memory);
        (parts.head, parts.body, parts.envelope) = (self.head, self.body, self.envelope);
        (parts.batch, parts.reply) = (self.batch, self.reply);
        (parts.stream_limits, parts.grpc) = (self.streams, self.grpc);
        let housekeeping = served.into_iter().fold(Housekeeping::of(&parts), |all, (chain, pool)| {
            all.with_probes(pool, chain, self.probe_interval)
        });
        Ok((GatewayService { stack: gateway_stack(&parts), _running: None }, housekeeping))
    }
}

impl Default for GatewayBuilder {
    fn default() -> Self {
        Self::new()
    }
}

fn callers(
    keys: Vec<(String, Plan)>,
    directory: Option<Arc<dyn Directory>>,
) -> Result<Arc<dyn Directory>, BuildError> {
    match directory {
        Some(_) if !keys.is_empty() => Err(BuildError::KeysBesideDirectory),
        Some(directory) => Ok(directory),
        None if keys.is_empty() => Err(BuildError::NoCaller),
        None => {
            let keys = (1..).zip(keys);
            let callers = keys.map(|(id, (key, plan))| (KeyHash::of(&key), Arc::new(Caller::of(id, plan))));
            Ok(Arc::new(MemoryDirectory::new(callers)))
        }
    }
}

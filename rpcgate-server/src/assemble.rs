//! Builds the parts of the stack from a configuration.

use crate::access::AccessLog;
use crate::journal::Journal;
use crate::metrics::{self, Calls};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rpcgate_config::Config;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::backend::Unavailable;
use rpcgate_core::backend::call_observer::{CallObserver, CallTracing};
use rpcgate_core::backend::counters::Counters;
use rpcgate_core::backend::directory::{Directory, KeyLookup, MemoryDirectory};
use rpcgate_core::backend::usage_observer::ObservedSink;
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{Chain, ChainHead, Chains};
use rpcgate_core::clock::Clock;
use rpcgate_core::memory::MemoryBudget;
use rpcgate_core::overload::ChainLoads;
use rpcgate_core::recent::RecentRequests;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::{Accounting, Transports};
use rpcgate_layers::call::body::BodyLimits;
use rpcgate_layers::call::cache::BoundedReplies;
use rpcgate_layers::grpc::GrpcLimits;
use rpcgate_layers::nodes::{Pool, Pools};
use rpcgate_layers::request::route::HeadLimits;
use rpcgate_layers::request::safeguard::Safeguard;
use rpcgate_layers::stack::Parts;
use rpcgate_layers::upstream::ReplyLimits;
use rpcgate_layers::websocket::StreamLimits;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The pools in use, by chain.
pub(crate) type PoolMap = HashMap<&'static str, Arc<Pool>>;

/// Builds every chain of the catalog with the settings of `config` and the transports of its pool. Chains keep the
/// heads that they have in `before`.
pub(crate) fn chains(config: &Config, pools: &PoolMap, before: &Chains) -> Chains {
    let chain = |adapter: Arc<dyn rpcgate_core::adapter::Adapter>| {
        let name = adapter.facts().name.as_str();
        let changes = config.chains.get(name).map(rpcgate_config::ChainSettings::changes).unwrap_or_default();
        let head = before.get(name).map_or_else(Arc::<ChainHead>::default, |chain| chain.head().clone());
        let served = pools.get(name).map_or(Transports::NONE, |pool| pool.transports());
        Arc::new(Chain::new(adapter, changes, served, head))
    };
    rpcgate_chains::catalog().map(chain).collect()
}

/// The backends that an embedder may supply.
pub(crate) struct Backends {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sink: Arc<dyn UsageSink>,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) counters: Arc<dyn Counters>,
    pub(crate) replies: Arc<BoundedReplies>,
    pub(crate) recent: Option<Arc<RecentRequests>>,
    pub(crate) observer: Option<Arc<dyn CallObserver>>,
    pub(crate) tracing: Option<CallTracing>,
}

/// Wraps `sink` in the observers of records: the safeguard, the access log and, if metrics are scraped, the meters. The
/// journal has meters in its own shards.
pub(crate) fn observed(
    sink: Arc<dyn UsageSink>,
    journal: Option<&Arc<Journal>>,
    has_metrics: bool,
    safeguard: Arc<Safeguard>,
) -> (Arc<dyn UsageSink>, Option<Calls>) {
    let (sink, calls) = if has_metrics {
        let (sink, calls) = metrics::counted(sink, journal);
        (sink, Some(calls))
    } else {
        (sink, None)
    };
    let sink = Arc::new(ObservedSink::new(sink, Arc::new(AccessLog)));
    (Arc::new(ObservedSink::new(sink, safeguard)), calls)
}

pub(crate) fn parts(
    config: &Config,
    backends: Backends,
    chains: Arc<ArcSwap<Chains>>,
    pools: Arc<ArcSwap<Pools>>,
    safeguard: Arc<Safeguard>,
) -> Parts {
    let limits = &config.gateway.limits;
    let mut accounting = Accounting::new(backends.clock, backends.counters, backends.sink);
    accounting.recent = backends.recent;
    accounting.observer = backends.observer;
    accounting.tracing = backends.tracing;
    let mut parts = Parts::new(chains, pools, backends.directory, Arc::new(accounting));
    parts.replies = backends.replies;
    parts.memory_budget = MemoryBudget::new(size(limits.bodies_total));
    parts.head = HeadLimits::default()
        .with_uri(size(limits.uri))
        .with_fields(limits.header_count as usize)
        .with_bytes(size(limits.headers));
    parts.body = BodyLimits::default()
        .with_bytes(size(limits.body))
        .with_patience(limits.body_grace)
        .with_pace(size(limits.body_rate))
        .with_total(limits.body_timeout);
    parts.batch = config.plans.batch_counts;
    parts.reply = ReplyLimits::default()
        .with_buffer(size(config.gateway.reply_buffer))
        .with_max(size(config.gateway.reply_max))
        .with_streams(config.gateway.reply_stream_max, config.gateway.reply_stream_timeout);
    parts.grpc =
        GrpcLimits::default().with_message(size(limits.grpc_message)).with_first(limits.body_timeout);
    parts.safeguard = safeguard;
    parts.loads = Arc::new(ChainLoads::by(config.gateway.overload.rules()));
    let ws = &config.gateway.ws;
    parts.stream_limits = StreamLimits::default()
        .with_max_message(size(ws.max_message))
        .with_max_backlog(size(ws.max_backlog))
        .with_pings(ws.ping_interval, ws.dead_after)
        .with_calls_per_second(ws.calls_per_second);
    parts
}

pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The keys of a configuration file. A reload replaces the whole set; removed keys are answered as revoked.
pub struct FileDirectory {
    keys: ArcSwap<MemoryDirectory>,
    /// All keys that the configuration has ever had, so that removed ones are known as revoked.
    seen: Mutex<HashMap<KeyHash, Arc<Caller>>>,
}

impl std::fmt::Debug for FileDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.keys.load().fmt(f)
    }
}

impl FileDirectory {
    /// Loads the keys of `config`.
    pub fn new(config: &Config) -> Self {
        let directory = FileDirectory { keys: ArcSwap::default(), seen: Mutex::default() };
        directory.replace(config);
        directory
    }

    /// Replaces the keys. A key that is in neither configuration is never accepted, not even during the swap.
    pub fn replace(&self, config: &Config) {
        let mut seen = self.seen.lock();
        let callers = config.callers();
        let good: HashSet<KeyHash> =
            callers.iter().filter(|known| !known.revoked).map(|known| known.hash).collect();
        seen.extend(callers.into_iter().map(|known| (known.hash, known.caller)));
        let keys = MemoryDirectory::new(seen.iter().map(|(hash, caller)| (*hash, caller.clone())));
        for hash in seen.keys().filter(|hash| !good.contains(hash)) {
            keys.revoke(*hash);
        }
        self.keys.store(Arc::new(keys));
    }
}

impl Directory for FileDirectory {
    fn peek(&self, key: &str) -> KeyLookup {
        self.keys.load().peek(key)
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.peek(key))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Input;
    use rpcgate_core::tally::Transport;
    use rpcgate_layers::nodes::{NodeDrains, NodeSpendings};
    use rpcgate_process::node_pool;

    fn config(text: &str) -> Config {
        Config::read(&Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() }).unwrap()
    }

    #[test]
    fn a_revoked_key_is_refused_as_revoked_and_so_is_a_removed_one() {
        let directory = FileDirectory::new(&config(
            "[keys.a]\nkey = \"aaaaaaaaaaaaaaaa\"\n[keys.b]\nkey = \"bbbbbbbbbbbbbbbb\"\nrevoked = true\n",
        ));
        assert!(matches!(directory.peek("aaaaaaaaaaaaaaaa"), KeyLookup::Known(_)));
        assert!(matches!(directory.peek("bbbbbbbbbbbbbbbb"), KeyLookup::Revoked(_)));
        directory.replace(&config("[keys.c]\nkey = \"cccccccccccccccc\"\nrevoked = true\n"));
        for key in ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"] {
            assert!(matches!(directory.peek(key), KeyLookup::Revoked(_)), "{key}");
        }
        assert!(matches!(directory.peek("dddddddddddddddd"), KeyLookup::Unknown));
        directory.replace(&config("[keys.b]\nkey = \"bbbbbbbbbbbbbbbb\"\n"));
        assert!(matches!(directory.peek("bbbbbbbbbbbbbbbb"), KeyLookup::Known(_)), "and may come back");
    }

    #[test]
    fn a_chain_is_served_once_it_has_a_pool_and_keeps_its_head() {
        let none = chains(&Config::default(), &PoolMap::new(), &Chains::default());
        assert!(none.iter().count() >= 10 && none.iter().all(|chain| !chain.is_served()));
        none.get("eth").unwrap().head().set(7);
        let config = config("[chains.eth]\nnodes = [\"http://h/\"]\ncu = { x = 9 }\n");
        let clock: Arc<dyn Clock> = Arc::new(rpcgate_core::clock::SystemClock::new());
        let eth = none.get("eth").unwrap().facts();
        let pool =
            node_pool(eth, &config.chains["eth"], &clock, &NodeDrains::default(), &NodeSpendings::default())
                .unwrap()
                .unwrap();
        let some = chains(&config, &PoolMap::from([("eth", pool)]), &none);
        let chain = some.get("eth").unwrap();
        assert_eq!(
            (chain.is_served(), chain.head().height(), chain.look_up("x").rule.cu),
            (true, Some(7), 9)
        );
        assert!(!some.get("btc").unwrap().is_served());
    }

    #[test]
    fn a_chain_is_served_over_the_transports_of_its_nodes() {
        let text = "[chains.solana]\nnodes = [\"ws://h/\", \"http://h/\"]\n[chains.eth]\nnodes = [\"ws://h/\"]\n\
                    [chains.tron]\nnodes = [\"grpc://h/\", \"http://h/\"]\n[chains.btc]\nnodes = [\"ws://h/\"]\n";
        let names = ["solana", "eth", "tron", "btc"];
        let config =
            Config::read(&Input { chains: &names, file: Some(("f", text)), ..Input::default() }).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(rpcgate_core::clock::SystemClock::new());
        let pool = |name| {
            let adapter = rpcgate_chains::by_path(name).unwrap();
            (
                name,
                node_pool(
                    adapter.facts(),
                    &config.chains[name],
                    &clock,
                    &NodeDrains::default(),
                    &NodeSpendings::default(),
                )
                .unwrap()
                .unwrap(),
            )
        };
        let all = chains(&config, &names.map(pool).into(), &Chains::default());
        let served = |name| {
            let chain = all.get(name).unwrap();
            [Transport::Http, Transport::Ws, Transport::Grpc].map(|transport| chain.serves(transport))
        };
        assert_eq!(served("solana"), [false, true, false]);
        assert_eq!(served("eth"), [false, true, false]);
        assert_eq!(served("tron"), [true, false, true]);
        assert!(!all.get("btc").unwrap().is_served(), "it has no streams");
    }
}

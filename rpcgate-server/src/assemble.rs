//! From a configuration to what the stack is built of.

use crate::counting::Counting;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::backend::Unavailable;
use rpcgate_core::backend::directory::{Directory, MemoryDirectory, Peek};
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{Chain, ChainHead, Chains};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::config::Config;
use rpcgate_core::envelope;
use rpcgate_core::memory::MemoryBudget;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Accounting;
use rpcgate_layers::call::body::BodyLimits;
use rpcgate_layers::call::cache::BoundedReplies;
use rpcgate_layers::call::heavy::Heavy;
use rpcgate_layers::call::pace::Pace;
use rpcgate_layers::nodes::{Pool, Pools};
use rpcgate_layers::request::route::HeadLimits;
use rpcgate_layers::request::safeguard::Safeguard;
use rpcgate_layers::spawn::TokioSpawn;
use rpcgate_layers::stack::Parts;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// The pools at work, by chain.
pub(crate) type PoolMap = HashMap<&'static str, Arc<Pool>>;

/// Every chain of the catalog as `config` leaves it, served if it has a pool. Heads of `before` go on.
pub(crate) fn chains(config: &Config, pools: &PoolMap, before: &Chains) -> Chains {
    let chain = |adapter: Arc<dyn rpcgate_core::adapter::Adapter>| {
        let name = adapter.facts().name.as_str();
        let changes =
            config.chains.get(name).map(rpcgate_core::config::ChainSettings::changes).unwrap_or_default();
        let head = before.get(name).map_or_else(Arc::<ChainHead>::default, |chain| chain.head().clone());
        Arc::new(Chain::new(adapter, changes, pools.contains_key(name), head))
    };
    rpcgate_chains::catalog().map(chain).collect()
}

/// What is swept now and then, so that callers long gone take no memory.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) counters: Counting,
    pub(crate) heavy: Arc<Heavy>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) safeguard: Arc<Safeguard>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// How often the clock is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How many looks lie between two sweeps of a clock that goes forward.
const SWEEP: u32 = 30;

impl Swept {
    /// Sweeps now and then, and as soon as it is seen that the clock was set back.
    pub(crate) async fn run(self) {
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut looks) = (self.clock.now(), 0);
        loop {
            tick.tick().await;
            let now = self.clock.now();
            looks = if now < last { SWEEP } else { looks + 1 };
            last = now;
            if looks >= SWEEP {
                looks = 0;
                self.sweep(now);
            }
        }
    }

    fn sweep(&self, now: Time) {
        self.counters.sweep(now);
        self.heavy.sweep(now);
        self.pace.sweep(now);
        self.safeguard.sweep(now);
    }
}

/// The backends that somebody may bring along.
pub(crate) struct Backends {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sink: Arc<dyn UsageSink>,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) counters: Counting,
    pub(crate) replies: Arc<BoundedReplies>,
}

/// Everything the stack is built of.
pub(crate) fn parts(
    config: &Config,
    backends: Backends,
    chains: Arc<ArcSwap<Chains>>,
    pools: Arc<ArcSwap<Pools>>,
    safeguard: Arc<Safeguard>,
) -> (Parts, Swept) {
    let limits = &config.gateway.limits;
    let swept = Swept {
        counters: backends.counters,
        heavy: Arc::default(),
        pace: Arc::default(),
        safeguard,
        clock: backends.clock.clone(),
    };
    let parts = Parts {
        chains,
        pools,
        directory: backends.directory,
        accounting: Arc::new(Accounting {
            clock: backends.clock,
            counters: swept.counters.backend(),
            sink: backends.sink,
        }),
        replies: backends.replies,
        spawn: Arc::new(TokioSpawn),
        room: MemoryBudget::new(size(limits.bodies_total)),
        head: HeadLimits {
            uri: size(limits.uri),
            fields: limits.header_count as usize,
            bytes: size(limits.headers),
        },
        body: BodyLimits {
            bytes: size(limits.body),
            patience: limits.body_grace,
            pace: size(limits.body_rate),
            whole: limits.body_timeout,
        },
        envelope: envelope::Limits::default(),
        batch: config.plans.batch_counts,
        reply: rpcgate_layers::upstream::ReplyLimits {
            buffer: size(config.gateway.reply_buffer),
            max: size(config.gateway.reply_max),
        },
        heavy: swept.heavy.clone(),
        pace: swept.pace.clone(),
        safeguard: swept.safeguard.clone(),
    };
    (parts, swept)
}

/// Bytes as the machine counts them.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The keys of a configuration file. They are replaced as a whole, and a key that is gone stays known as a revoked
/// one.
pub struct FileDirectory {
    keys: ArcSwap<MemoryDirectory>,
    /// Every key there ever was, for the tombstones.
    seen: Mutex<HashMap<KeyHash, Arc<Caller>>>,
}

impl std::fmt::Debug for FileDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.keys.load().fmt(f)
    }
}

impl FileDirectory {
    /// The keys of `config`.
    pub fn new(config: &Config) -> Self {
        let directory = FileDirectory { keys: ArcSwap::default(), seen: Mutex::default() };
        directory.replace(config);
        directory
    }

    /// Puts the keys of `config` in the place of the former ones. No key is good for a moment that neither the former
    /// nor the new configuration lets in.
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
    fn peek(&self, key: &str) -> Peek {
        self.keys.load().peek(key)
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Peek, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.peek(key))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::config::Input;

    fn config(text: &str) -> Config {
        Config::read(&Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() }).unwrap()
    }

    #[test]
    fn a_revoked_key_is_known_as_such_and_a_removed_one_becomes_it() {
        let directory = FileDirectory::new(&config(
            "[keys.a]\nkey = \"aaaaaaaaaaaaaaaa\"\n[keys.b]\nkey = \"bbbbbbbbbbbbbbbb\"\nrevoked = true\n",
        ));
        assert!(matches!(directory.peek("aaaaaaaaaaaaaaaa"), Peek::Known(_)));
        assert!(matches!(directory.peek("bbbbbbbbbbbbbbbb"), Peek::Revoked(_)));
        directory.replace(&config("[keys.c]\nkey = \"cccccccccccccccc\"\nrevoked = true\n"));
        for key in ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"] {
            assert!(matches!(directory.peek(key), Peek::Revoked(_)), "{key}");
        }
        assert!(matches!(directory.peek("dddddddddddddddd"), Peek::Unknown));
        directory.replace(&config("[keys.b]\nkey = \"bbbbbbbbbbbbbbbb\"\n"));
        assert!(matches!(directory.peek("bbbbbbbbbbbbbbbb"), Peek::Known(_)), "and may come back");
    }

    #[test]
    fn a_chain_is_served_once_it_has_a_pool_and_keeps_its_head() {
        let none = chains(&Config::default(), &PoolMap::new(), &Chains::default());
        assert!(none.iter().count() >= 10 && none.iter().all(|chain| !chain.is_served()));
        none.get("eth").unwrap().head().set(7);
        let config = config("[chains.eth]\nnodes = [\"http://h/\"]\ncu = { x = 9 }\n");
        let clock: Arc<dyn Clock> = Arc::new(rpcgate_core::clock::SystemClock::new());
        let eth = none.get("eth").unwrap().facts();
        let pool = crate::nodes::pool(eth, &config.chains["eth"], &clock).unwrap().unwrap();
        let some = chains(&config, &PoolMap::from([("eth", pool)]), &none);
        let chain = some.get("eth").unwrap();
        assert_eq!(
            (chain.is_served(), chain.head().height(), chain.look_up("x").rule.cu),
            (true, Some(7), 9)
        );
        assert!(!some.get("btc").unwrap().is_served());
    }
}

//! A watched chain: the state that its tasks share, and the subscriptions that its events match.

use super::backlog::Backlogs;
use super::pool_nodes::{ChainNodes, PoolNodes};
use parking_lot::Mutex;
use rpcgate_config::ChainSettings;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::event::{BlockRef, ChainEvent, SubscriptionIndex};
use rpcgate_layers::nodes::Pool;
use rpcgate_management::watch_metrics::WatchMetrics;
use rpcgate_store::{
    MatchedEvent, MatchedSubscription, Store, StoreError, SubscriptionId, WatchLease, WebhookId,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The time for which a watcher holds a chain after its last write. Then another watcher replaces it.
pub(super) const LEASE: Duration = Duration::from_secs(15);

const LONGEST_CALL: Duration = Duration::from_secs(30);

/// The settings for watching a chain. Changed settings need a new task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WatchSettings {
    pub(super) chain: ChainSettings,
    pub(super) probe_interval: Duration,
    pub(super) final_depth: u64,
    pub(super) catch_up_per_second: u32,
    pub(super) catch_up_blocks: u64,
    pub(super) block_patience: Duration,
}

pub(super) struct WatchedChain {
    pub(super) name: &'static str,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) settings: WatchSettings,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) index: SubscriptionIndex,
    pub(super) backlogs: Arc<Backlogs>,
    pub(super) metrics: WatchMetrics,
    pub(super) pool: Arc<Pool>,
    pub(super) nodes: Arc<dyn ChainNodes>,
    pub(super) watcher: u128,
    pub(super) chain: Arc<Chain>,
    /// Wakes the block watcher.
    pub(super) looks: Arc<Notify>,
    newest: Mutex<Option<BlockRef>>,
}

/// The parts of a watched chain other than the chain itself.
#[derive(Clone, Debug)]
pub(super) struct WatchParts {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) index: SubscriptionIndex,
    pub(super) backlogs: Arc<Backlogs>,
    pub(super) metrics: WatchMetrics,
    pub(super) watcher: u128,
}

impl WatchedChain {
    pub(super) fn new(
        adapter: Arc<dyn Adapter>,
        settings: WatchSettings,
        pool: Arc<Pool>,
        parts: WatchParts,
    ) -> Self {
        let WatchParts { store, clock, index, backlogs, metrics, watcher } = parts;
        let chain = Arc::new(Chain::deployed(adapter.clone()));
        let limit = settings.chain.timeout.min(LONGEST_CALL);
        let nodes = PoolNodes::new(pool.clone(), adapter.clone(), chain.head().clone(), limit);
        WatchedChain {
            name: adapter.facts().name.as_str(),
            nodes: Arc::new(nodes),
            chain,
            adapter,
            settings,
            store,
            clock,
            index,
            backlogs,
            metrics,
            pool,
            watcher,
            looks: Arc::default(),
            newest: Mutex::default(),
        }
    }

    pub(super) fn lease(&self) -> WatchLease<'_> {
        WatchLease { chain: self.name, watcher: self.watcher, lease: LEASE }
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn see(&self, block: Option<&BlockRef>) {
        *self.newest.lock() = block.cloned();
    }

    pub(super) fn newest(&self) -> Option<BlockRef> {
        self.newest.lock().clone()
    }

    /// Waits until the next check for blocks, for at most `longest`.
    pub(super) async fn wait(&self, longest: Duration) {
        let _ = timeout(longest, self.looks.notified()).await;
    }

    /// Returns the events that have subscriptions, with the subscriptions that they match. Events of a block that
    /// replaces another are marked.
    pub(super) async fn matched(
        &self,
        block: &BlockRef,
        events: Vec<ChainEvent>,
        is_replacing: bool,
    ) -> Result<Vec<MatchedEvent>, StoreError> {
        let mut all = Vec::new();
        for event in events {
            let event = if is_replacing { event.with("reorganized", true) } else { event };
            // An endpoint gets one delivery for each number of confirmations, even if several of its subscriptions
            // match.
            let mut seen = HashSet::new();
            let mut found = self.index.matches(self.name, block, &event);
            found.sort_unstable_by_key(|found| found.subscription);
            found.retain(|found| seen.insert((found.webhook, found.confirmations)));
            if found.is_empty() {
                continue;
            }
            let matched = found.into_iter().map(|found| MatchedSubscription {
                subscription: SubscriptionId(found.subscription),
                webhook: WebhookId(found.webhook),
                project: ProjectId(found.project),
                confirmations: found.confirmations,
                is_delivered: true,
            });
            let body = event.bounded_body(self.name, block);
            all.push(MatchedEvent { body, matched: matched.collect(), event });
        }
        let endpoints: Vec<_> =
            all.iter().flat_map(|event| &event.matched).map(|matched| matched.webhook).collect();
        self.backlogs.count(&self.store, endpoints, self.now()).await?;
        let mut withheld = 0;
        for matched in all.iter_mut().flat_map(|event| &mut event.matched) {
            withheld += u64::from(!self.backlogs.admit(matched));
        }
        self.metrics.withheld(self.name, withheld);
        Ok(all)
    }
}

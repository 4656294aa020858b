//! The service that watches chains for the events that webhooks subscribe to.
//!
//! Each chain with nodes and subscriptions has a task in the process that holds the chain's lease in the database. An
//! index of the subscriptions follows the change feed.

mod backlog;
mod block_timeout;
mod block_watch;
mod bounded_calls;
mod chain_watch;
mod failure_log;
mod follow;
mod head_signal;
mod health;
mod node_calls;
mod oldest_block;
mod pool_nodes;
mod subscriptions;
#[cfg(test)]
mod tests;
mod watched_chain;

use super::app_task::{AppTask, CurrentApp};
use backlog::Backlogs;
use failure_log::FailureLog;
#[cfg(feature = "cli")]
pub(crate) use node_calls::NodeSession;
use rpcgate_config::Config;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::BoxFuture;
use rpcgate_layers::nodes::{NodeDrains, NodeSpendings, Pool};
use rpcgate_management::app_state::AppState;
use rpcgate_process::node_pool;
use rpcgate_store::{StoreError, WatchLease, fresh_id};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use subscriptions::Subscriptions;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use watched_chain::{LEASE, WatchParts, WatchSettings, WatchedChain};

/// The interval of reads of the change feed.
const EVERY: Duration = Duration::from_millis(250);

const CLAIM_EVERY: Duration = Duration::from_secs(5);

/// The maximum number of chains per claim, so that processes that start at the same time each get some.
const CLAIMS_AT_ONCE: usize = 4;

/// The interval in which a watcher hands over a chain to another that has less than its share.
const GIVE_EVERY: Duration = Duration::from_secs(5);

/// The interval of checks for chains without subscriptions.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The running watcher. Dropping it stops it after its current work.
#[derive(Debug)]
pub struct Watcher {
    task: AppTask,
}

impl Watcher {
    /// Starts to watch the chains whose nodes are in the configuration of `app`.
    pub fn start(app: &Arc<AppState>) -> Self {
        Self::of(app, rpcgate_chains::catalog().collect())
    }

    fn of(app: &Arc<AppState>, adapters: Vec<Arc<dyn Adapter>>) -> Self {
        Watcher { task: AppTask::start(app, |app, leave| work(app, adapters, leave)) }
    }

    /// Uses `app` from now on, on the same databases. A chain with changed settings is restarted.
    pub fn serve(&self, app: &Arc<AppState>) {
        self.task.serve(app);
    }

    /// Stops, and releases the chains to other watchers.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        self.task.stop()
    }
}

async fn work(app: CurrentApp, adapters: Vec<Arc<dyn Adapter>>, leave: CancellationToken) {
    let mut watches = Watches::new(&app.load(), adapters);
    let mut reads = FailureLog::new("subscriptions of webhooks are read");
    let mut claims = FailureLog::new("chains are claimed");
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = leave.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let app = app.load_full();
        reads.note(&watches.subscriptions.refresh(&app.store).await);
        if watches.subscriptions.is_read() {
            claims.note(&watches.arrange(&app).await);
        }
    }
    watches.stop(&app.load()).await;
}

#[derive(Debug)]
struct ChainTask {
    settings: WatchSettings,
    leave: CancellationToken,
    work: JoinHandle<()>,
}

impl ChainTask {
    async fn stop(self) {
        self.leave.cancel();
        let _ = self.work.await;
    }
}

#[derive(Debug)]
struct Watches {
    watcher: u128,
    adapters: Vec<Arc<dyn Adapter>>,
    subscriptions: Subscriptions,
    backlogs: Arc<Backlogs>,
    running: HashMap<&'static str, ChainTask>,
    /// The wanted chains at the last claim, and its time.
    claimed: Option<(Vec<&'static str>, Duration)>,
    /// The time at which a chain was last handed over to a watcher with less than its share.
    given: Option<Duration>,
    tidied: Option<Duration>,
}

impl Watches {
    fn new(app: &AppState, adapters: Vec<Arc<dyn Adapter>>) -> Self {
        Watches {
            watcher: fresh_id(app.now()),
            subscriptions: Subscriptions::new(adapters.iter().cloned()),
            adapters,
            backlogs: Arc::default(),
            running: HashMap::new(),
            claimed: None,
            given: None,
            tidied: None,
        }
    }

    /// Starts and stops the tasks of chains according to the current subscriptions, configuration and leases.
    async fn arrange(&mut self, app: &AppState) -> Result<(), StoreError> {
        let subscribed = self.subscribed_chains(&app.settings.config);
        self.running.retain(|_, task| !task.work.is_finished());
        let names: Vec<_> = subscribed.iter().map(|(adapter, _)| adapter.facts().name.as_str()).collect();
        let unwanted: Vec<_> = self.running.keys().copied().filter(|name| !names.contains(name)).collect();
        for name in unwanted {
            self.end(name).await;
            self.forget(app, name).await?;
        }
        for (adapter, settings) in &subscribed {
            let name = adapter.facts().name.as_str();
            if self.running.get(name).is_some_and(|task| task.settings != *settings) {
                self.end(name).await;
                self.claimed = None;
            }
        }
        if self.is_claim_due(app, &names) {
            self.claim(app, &subscribed, names).await?;
        }
        self.tidy(app).await
    }

    /// Returns the chains with subscriptions and nodes, and their settings.
    fn subscribed_chains(&self, config: &Config) -> Vec<(Arc<dyn Adapter>, WatchSettings)> {
        let subscribed = self.subscriptions.index().chains();
        let is_subscribed = |name: &str| subscribed.iter().any(|chain| chain == name);
        let watched = |adapter: &Arc<dyn Adapter>| {
            let name = adapter.facts().name.as_str();
            let settings = watch_settings(&**adapter, config)?;
            is_subscribed(name).then(|| (adapter.clone(), settings))
        };
        self.adapters.iter().filter_map(watched).collect()
    }

    fn is_claim_due(&self, app: &AppState, names: &[&'static str]) -> bool {
        match &self.claimed {
            None => true,
            Some((before, at)) => before != names || app.clock.elapsed().saturating_sub(*at) >= CLAIM_EVERY,
        }
    }

    async fn claim(
        &mut self,
        app: &AppState,
        subscribed: &[(Arc<dyn Adapter>, WatchSettings)],
        names: Vec<&'static str>,
    ) -> Result<(), StoreError> {
        let usable: Vec<_> = subscribed.iter().filter_map(|one| self.usable(app, one)).collect();
        let held = match usable[..] {
            [] => Vec::new(),
            _ => {
                let now = app.now();
                app.store.note_watcher(self.watcher, &usable, LEASE, now).await?;
                app.store.claim_chains(self.watcher, &usable, CLAIMS_AT_ONCE, LEASE, now).await?
            }
        };
        let lost: Vec<_> = self.running.keys().copied().filter(|name| !held.contains(name)).collect();
        for name in lost {
            self.end(name).await;
        }
        let mut is_new = false;
        for (adapter, settings) in subscribed {
            let name = adapter.facts().name.as_str();
            if held.contains(&name) && !self.running.contains_key(name) {
                is_new |= self.begin(app, adapter, settings);
            }
        }
        // There may be more unclaimed chains.
        self.claimed = (!is_new).then(|| (names, app.clock.elapsed()));
        self.give(app).await
    }

    /// Hands over a chain to a watcher that has less than its share, if this one has more. It hands over one at a time,
    /// because the chain is not followed until the other watcher claims it.
    async fn give(&mut self, app: &AppState) -> Result<(), StoreError> {
        let elapsed = app.clock.elapsed();
        if self.running.is_empty() || self.given.is_some_and(|at| elapsed.saturating_sub(at) < GIVE_EVERY) {
            return Ok(());
        }
        let names: Vec<_> = self.running.keys().copied().collect();
        let Some(name) = app.store.surplus_chain(self.watcher, &names, app.now()).await? else {
            return Ok(());
        };
        self.given = Some(elapsed);
        tracing::info!(chain = name, "another watcher gets the chain: it has less than its share");
        self.end(name).await;
        app.store.release_chains(self.watcher, &[name], app.now()).await
    }

    /// Returns the name of a chain that this process can follow. A chain whose nodes it cannot use is left to others.
    fn usable(
        &self,
        app: &AppState,
        (adapter, settings): &(Arc<dyn Adapter>, WatchSettings),
    ) -> Option<&'static str> {
        let name = adapter.facts().name.as_str();
        let is_usable = self.running.contains_key(name) || pool_of(app, adapter, settings).is_some();
        is_usable.then_some(name)
    }

    /// Starts the task of a chain, and reports whether its nodes can be used.
    fn begin(&mut self, app: &AppState, adapter: &Arc<dyn Adapter>, settings: &WatchSettings) -> bool {
        let name = adapter.facts().name.as_str();
        let Some(pool) = pool_of(app, adapter, settings) else { return false };
        let parts = WatchParts {
            store: app.store.clone(),
            clock: app.clock.clone(),
            index: self.subscriptions.index().clone(),
            backlogs: self.backlogs.clone(),
            metrics: app.watch_metrics.clone(),
            watcher: self.watcher,
        };
        let chain = WatchedChain::new(adapter.clone(), settings.clone(), pool, parts);
        let leave = CancellationToken::new();
        let work = tokio::spawn(chain.run(leave.clone()));
        tracing::info!(chain = name, "watching the chain");
        self.running.insert(name, ChainTask { settings: settings.clone(), leave, work });
        true
    }

    async fn end(&mut self, name: &'static str) {
        if let Some(task) = self.running.remove(name) {
            task.stop().await;
        }
    }

    /// Releases a chain. If it has no subscriptions, its progress is forgotten too; if it only lacks nodes, the
    /// progress stays.
    async fn forget(&self, app: &AppState, name: &'static str) -> Result<(), StoreError> {
        let lease = WatchLease { chain: name, watcher: self.watcher, lease: LEASE };
        if !self.subscriptions.index().chains().iter().any(|chain| chain == name) {
            let _ = app.store.forget_followed(&lease, app.now()).await?;
        }
        app.store.release_chains(self.watcher, &[name], app.now()).await
    }

    /// Forgets chains whose last subscription was removed while no watcher was running.
    async fn tidy(&mut self, app: &AppState) -> Result<(), StoreError> {
        let elapsed = app.clock.elapsed();
        if self.tidied.is_some_and(|at| elapsed.saturating_sub(at) < TIDY_EVERY) {
            return Ok(());
        }
        let subscribed = self.subscriptions.index().chains();
        for chain in app.store.followed_chains().await? {
            let known = self.adapters.iter().map(|adapter| adapter.facts().name.as_str());
            let Some(name) = known.into_iter().find(|name| *name == chain) else { continue };
            if subscribed.contains(&chain) {
                continue;
            }
            let held = app.store.claim_chains(self.watcher, &[name], 1, LEASE, app.now()).await?;
            if held.contains(&name) {
                self.forget(app, name).await?;
            }
        }
        self.tidied = Some(elapsed);
        Ok(())
    }

    async fn stop(mut self, app: &AppState) {
        let names: Vec<_> = self.running.keys().copied().collect();
        for task in self.running.values() {
            task.leave.cancel();
        }
        for name in &names {
            self.end(name).await;
        }
        // First, so that released chains are not handed over to this watcher.
        let gone = app.store.forget_watcher(self.watcher).await;
        let released = app.store.release_chains(self.watcher, &names, app.now()).await;
        if let Err(error) = gone.and(released) {
            tracing::debug!(%error, "other watchers wait for the end of the leases");
        }
    }
}

fn pool_of(app: &AppState, adapter: &Arc<dyn Adapter>, settings: &WatchSettings) -> Option<Arc<Pool>> {
    node_pool(adapter.facts(), &settings.chain, &app.clock, &NodeDrains::default(), &NodeSpendings::default())
        .unwrap_or_else(|why| {
            let name = adapter.facts().name;
            tracing::error!("chains.{name}.nodes: {why}: the chain is not watched");
            None
        })
}

/// Returns the settings of a chain, or `None` if it has no nodes or is disabled.
fn watch_settings(adapter: &dyn Adapter, config: &Config) -> Option<WatchSettings> {
    let facts = adapter.facts();
    let chain = config.chains.get(facts.name.as_str())?;
    (chain.enabled && !chain.nodes.is_empty()).then(|| WatchSettings {
        chain: chain.clone(),
        probe_interval: chain.probe_interval,
        final_depth: chain.final_depth.unwrap_or(facts.final_depth),
        catch_up_per_second: config.webhooks.catch_up_per_second,
        catch_up_blocks: config.webhooks.catch_up_blocks,
        block_patience: config.webhooks.block_patience,
    })
}

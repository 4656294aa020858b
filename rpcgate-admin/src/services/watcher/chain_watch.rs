//! Watches one chain: its nodes, its blocks and its health.

use super::block_watch::BlockWatch;
use super::head_signal;
use super::health::{EVERY, HealthWatch, between_probes, is_fit};
use super::watched_chain::WatchedChain;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{BlockReader, BlockRef, ChainEvent, EventType, HealthPhase};
use rpcgate_layers::nodes::watch_head;
use rpcgate_store::{StoreError, WatchOutcome};
use std::future::pending;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

impl WatchedChain {
    /// Watches until `leave` is cancelled or another watcher has the chain.
    pub(super) fn run(self, leave: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let reader = self.adapter.block_reader();
            let every = between_probes(self.settings.probe_interval);
            let probes: BoxFuture<'_, ()> =
                Box::pin(watch_head(self.pool.clone(), self.chain.clone(), every));
            let blocks: BoxFuture<'_, ()> = match reader {
                Some(reader) => Box::pin(BlockWatch::new(&self, reader).run()),
                None => Box::pin(pending()),
            };
            let signals: BoxFuture<'_, ()> = match reader.and_then(BlockReader::head_subscription) {
                Some(heads) => Box::pin(head_signal::notify(self.pool.clone(), heads, self.looks.clone())),
                None => Box::pin(pending()),
            };
            let health: BoxFuture<'_, ()> = Box::pin(self.watch_health());
            tokio::select! {
                () = leave.cancelled() => {}
                () = probes => {}
                () = signals => {}
                () = blocks => tracing::warn!(chain = self.name, "another watcher follows the chain"),
                () = health => tracing::warn!(chain = self.name, "another watcher reports its health"),
            }
            self.metrics.forget(self.name);
        })
    }

    /// Reports changes of the chain's health until another watcher has the chain.
    async fn watch_health(&self) {
        let mut watch = HealthWatch::default();
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = None;
        loop {
            ticks.tick().await;
            let Some(phase) = watch.look(is_fit(&self.pool)) else { continue };
            if reported == Some(phase) {
                continue;
            }
            match self.report(phase).await {
                Ok(WatchOutcome::Done) => reported = Some(phase),
                Ok(WatchOutcome::LeaseLost) => return,
                Err(error) => {
                    tracing::debug!(chain = self.name, %error, "the health of the chain waits for the database");
                }
            }
        }
    }

    /// Reports a phase, unless it is the last reported one, or the first one and good.
    pub(super) async fn report(&self, phase: HealthPhase) -> Result<WatchOutcome, StoreError> {
        let before = self.store.reported_phase(self.name).await?;
        if before == Some(phase) {
            return Ok(WatchOutcome::Done);
        }
        let newest = self.newest();
        let mut block =
            newest.unwrap_or_else(|| BlockRef::new(self.nodes.head().unwrap_or_default(), "", "", 0));
        block.timestamp = i64::try_from(self.now().secs()).unwrap_or(i64::MAX);
        let event = ChainEvent::new(EventType::Health).with("phase", phase.name());
        let is_news = before.is_some() || phase == HealthPhase::Degraded;
        let events = if is_news { vec![event] } else { Vec::new() };
        let mut matched = self.matched(&block, events, false).await?;
        for matched in matched.iter_mut().flat_map(|event| &mut event.matched) {
            // A health event has no later blocks to wait for.
            matched.confirmations = 0;
        }
        let outcome = self.store.report_phase(&self.lease(), phase, &block, &matched, self.now()).await?;
        if outcome == WatchOutcome::Done && is_news {
            tracing::warn!(chain = self.name, phase = phase.name(), "the health of the chain has changed");
            self.metrics.count_events(self.name, &matched);
        }
        Ok(outcome)
    }
}

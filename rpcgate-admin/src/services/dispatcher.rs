//! The service that makes webhook deliveries.
//!
//! It claims due deliveries, makes an attempt at each, and stores the outcomes, all in batches. If it is killed before
//! it stores an outcome, the attempt is repeated after the lease. Several dispatchers share the deliveries of a
//! database.

use super::app_task::{AppTask, CurrentApp};
use super::delivering::Delivering;
use super::replayer;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_management::action::webhook_failures::{give_up_waiting, take_turns};
use rpcgate_management::app_state::AppState;
use rpcgate_management::webhook::attempt::lease;
use rpcgate_store::{EndedAttempt, ReleasedDelivery, StoreError, WebhookId};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// The pause between two checks of the database without events.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time in which outcomes are collected, so that one transaction stores many.
const COLLECTING: Duration = Duration::from_millis(5);
const AFTER_ERROR: Duration = Duration::from_millis(500);
/// The maximum number of deliveries per claim, and of outcomes that are stored together.
const BATCH: usize = 512;
/// The pause between two checks for deliveries that wait for disabled endpoints.
const CHORES: Duration = Duration::from_secs(60);
/// The number of endpoints whose notifications are remembered, and the time for which they are.
const TOLD: usize = 10_000;
const TOLD_FOR: Duration = Duration::from_secs(3_600);
/// The number of tries to store the last outcomes before the dispatcher stops.
const LAST_TRIES: u32 = 5;

/// The running dispatcher. Dropping it stops it.
#[derive(Debug)]
pub struct Dispatcher {
    tasks: [AppTask; 2],
}

impl Dispatcher {
    /// Starts a dispatcher for the database of `app`.
    pub fn start(app: &Arc<AppState>) -> Self {
        Dispatcher { tasks: [AppTask::start(app, work), replayer::start(app)] }
    }

    /// Uses `app` from now on, on the same database.
    pub fn serve(&self, app: &Arc<AppState>) {
        for task in &self.tasks {
            task.serve(app);
        }
    }

    /// Finishes the running attempts for at most `shutdown.grace`, and releases all other deliveries to other
    /// dispatchers.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            futures_util::future::join_all(self.tasks.map(AppTask::stop)).await;
        })
    }
}

/// The state of the dispatcher between rounds.
struct Dispatching {
    app: CurrentApp,
    delivering: Delivering,
    ended: UnboundedReceiver<EndedAttempt>,
    unmarked: Vec<EndedAttempt>,
    told: HashMap<WebhookId, Time>,
}

async fn work(app: CurrentApp, leave: CancellationToken) {
    let (send, ended) = unbounded_channel();
    let delivering = Delivering::new(app.clone(), send);
    let mut all = Dispatching { app, delivering, ended, unmarked: Vec::new(), told: HashMap::new() };
    let mut chores: Option<Duration> = None;
    while !leave.is_cancelled() {
        let pause = match all.round().await {
            Ok(true) => Duration::ZERO,
            Ok(false) => INTERVAL,
            Err(error) => {
                tracing::debug!(%error, "deliveries wait for the database");
                AFTER_ERROR
            }
        };
        let app = all.app.load_full();
        let elapsed = app.clock.elapsed();
        if chores.is_none_or(|last| elapsed.saturating_sub(last) >= CHORES || elapsed < last) {
            chores = Some(elapsed);
            match give_up_waiting(&app).await {
                // The next ones follow in the next round, so that other deliveries need not wait for them.
                Ok(true) => chores = None,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, "deliveries of endpoints that are switched off wait for the database");
                }
            }
        }
        if pause > Duration::ZERO {
            tokio::select! {
                Some(end) = all.ended.recv(), if pause == INTERVAL => {
                    all.unmarked.push(end);
                    tokio::time::sleep(COLLECTING).await;
                }
                () = tokio::time::sleep(pause) => {}
                () = leave.cancelled() => {}
            }
        }
    }
    all.close().await;
}

impl Dispatching {
    /// Stores outcomes, starts the allowed attempts and claims more. Reports whether the next round should follow at
    /// once.
    async fn round(&mut self) -> Result<bool, StoreError> {
        while let Ok(end) = self.ended.try_recv() {
            self.unmarked.push(end);
        }
        self.mark().await?;
        let back = self.delivering.proceed();
        self.release(back).await?;
        let app = self.app.load_full();
        let (most, room) = self.delivering.capacity();
        let most = most.min(BATCH);
        if most == 0 {
            return Ok(false);
        }
        let lease = lease(app.settings.config.webhooks.timeout);
        // Taken before the claim, so that the lease does not end later here than in the database.
        let claimed_at = app.clock.elapsed();
        let claimed = app.store.claim_deliveries(most, &room, lease, app.now()).await?;
        let count = claimed.len();
        self.delivering.add(claimed, claimed_at.saturating_add(lease));
        let back = self.delivering.proceed();
        self.release(back).await?;
        Ok(count == most)
    }

    async fn mark(&mut self) -> Result<(), StoreError> {
        while !self.unmarked.is_empty() {
            let app = self.app.load_full();
            let some = self.unmarked.len().min(BATCH);
            let turns = app.store.finish_attempts(&self.unmarked[..some], app.now()).await?;
            self.delivering.marked(&self.unmarked[..some]);
            self.unmarked.drain(..some);
            let now = app.now();
            self.told.retain(|_, at| now.since(*at) < TOLD_FOR && *at <= now);
            let is_told = |webhook| self.told.contains_key(&webhook);
            let is_left_alone = |webhook| self.delivering.is_left_alone(webhook);
            if let Err(error) = take_turns(&app, &turns, is_told, is_left_alone).await {
                tracing::warn!(%error, "users could not be notified about an endpoint");
                continue;
            }
            for one in turns.failing.iter().filter(|one| one.has_given_up) {
                if self.told.len() < TOLD {
                    self.told.insert(one.webhook, now);
                }
            }
        }
        Ok(())
    }

    async fn release(&self, back: Vec<ReleasedDelivery>) -> Result<(), StoreError> {
        self.app.load_full().store.release_deliveries(&back).await
    }

    async fn close(mut self) {
        let grace = self.app.load().settings.config.shutdown.grace;
        let delivering = self.delivering.clone();
        let mut closing = pin!(delivering.close(grace));
        // Outcomes are stored before their leases end, although other attempts are still running.
        let back = loop {
            tokio::select! {
                back = &mut closing => break back,
                Some(end) = self.ended.recv() => self.unmarked.push(end),
                () = tokio::time::sleep(AFTER_ERROR), if !self.unmarked.is_empty() => {}
            }
            if let Err(error) = self.mark().await {
                tracing::debug!(%error, "results of deliveries wait for the database");
            }
        };
        while let Ok(end) = self.ended.try_recv() {
            self.unmarked.push(end);
        }
        for _ in 0..LAST_TRIES {
            match self.mark().await {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(%error, "results of deliveries could not be stored: they may be sent again");
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
        }
        if let Err(error) = self.release(back).await {
            tracing::debug!(%error, "deliveries are due again when their leases are over");
        }
    }
}

#[cfg(test)]
mod tests;

//! Follows the change feed, so that changes by the management side take effect within a second. It is read several
//! times a second, and at once when the database notifies.

use super::directory::StoreDirectory;
use super::overlay_watch::OverlayWatch;
use rpcgate_config::Overlay;
use rpcgate_core::backend::changes::{AT_ONCE, Change, ChangeFeed, Numbered};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The interval of reads.
const EVERY: Duration = Duration::from_millis(200);
/// The delay between requested reads, so that many simultaneous changes cause one read.
const APART: Duration = Duration::from_millis(20);
/// The time limit of a read, after which the database counts as down.
const DEADLINE: Duration = Duration::from_secs(1);

/// The part of the management database that concerns all callers.
pub(super) trait Management: ChangeFeed {
    fn overlay(&self) -> BoxFuture<'_, Result<Overlay, Unavailable>>;

    fn newest(&self) -> BoxFuture<'_, Result<u64, Unavailable>>;

    /// Returns the oldest stored change's number; 0 without changes. Old ones are removed, but never the newest.
    fn oldest(&self) -> BoxFuture<'_, Result<u64, Unavailable>>;
}

pub(super) struct Feed {
    management: Arc<dyn Management>,
    directory: Arc<StoreDirectory>,
    overlay_watch: Arc<OverlayWatch>,
    /// The number of the last change that was applied.
    number: u64,
    /// The operators' settings must be read again.
    stale: bool,
    away: bool,
    every: Duration,
    notify: Arc<Notify>,
    /// Sends the changes that were read to other gateways.
    outgoing: Option<mpsc::Sender<Numbered>>,
    /// Receives the changes that other gateways have read.
    incoming: Option<mpsc::Receiver<Numbered>>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("number", &self.number).field("away", &self.away).finish_non_exhaustive()
    }
}

impl Feed {
    /// Starts at the newest change. When this returns, the operators' settings are applied, and keys looked up from
    /// here on are dropped when a change concerns them.
    pub(super) async fn start(
        management: Arc<dyn Management>,
        directory: Arc<StoreDirectory>,
        overlay_watch: Arc<OverlayWatch>,
    ) -> Result<Self, Unavailable> {
        // The number is read first: changes made while the rest is read are read again.
        let number = within(management.newest()).await?;
        overlay_watch.put(within(management.overlay()).await?);
        directory.reached();
        let every = EVERY;
        let notify = Arc::default();
        let stale = false;
        let away = false;
        let outgoing = None;
        let incoming = None;
        Ok(Feed {
            management,
            directory,
            overlay_watch,
            number,
            stale,
            away,
            every,
            notify,
            outgoing,
            incoming,
        })
    }

    /// Sends changes to other gateways by `outgoing`, and applies those from `incoming` before they are read here: the
    /// affected keys are looked up again, and not served while the database is away.
    pub(super) fn relayed(
        self,
        outgoing: mpsc::Sender<Numbered>,
        incoming: mpsc::Receiver<Numbered>,
    ) -> Self {
        Feed { outgoing: Some(outgoing), incoming: Some(incoming), ..self }
    }

    /// Returns the handle that requests a read now, in addition to the interval.
    pub(super) fn notify(&self) -> Arc<Notify> {
        self.notify.clone()
    }

    /// Follows the feed and the clock until `closing`.
    pub(super) async fn run(self, closing: CancellationToken) {
        // A frozen database delays the reads of the feed, but not the changes that take effect at a set time.
        let bounds = follow_bounds(self.directory.clone(), self.overlay_watch.clone(), closing.clone());
        tokio::join!(self.follow(closing), bounds);
    }

    async fn follow(mut self, closing: CancellationToken) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut received = Vec::new();
        loop {
            // Changes from other gateways come first: while the database is silent, a read is due whenever one ends.
            let requested = tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = receive(&mut self.incoming, &mut received) => {
                    self.act_early(&mut received).await;
                    continue;
                }
                () = self.notify.notified() => true,
                _ = ticks.tick() => false,
            };
            let read = self.read().await;
            self.log_status(read.is_err());
            if requested {
                tokio::time::sleep(APART).await;
            }
        }
    }

    /// Applies changes that other gateways sent. They are read here nevertheless, because the received may have gaps.
    async fn act_early(&self, received: &mut Vec<Numbered>) {
        let changes: Vec<Change> =
            received.drain(..).filter(|one| one.number > self.number).map(|one| one.change).collect();
        if !changes.is_empty() {
            self.apply(changes)
                .await
                .unwrap_or_else(|Unavailable| tracing::error!("changes were not applied"));
            self.notify.notify_one();
        }
    }

    async fn apply(&self, changes: Vec<Change>) -> Result<(), Unavailable> {
        let directory = self.directory.clone();
        // With many keys in memory this takes the time of thousands of calls.
        tokio::task::spawn_blocking(move || directory.apply(&changes)).await.map_err(|_| Unavailable)
    }

    async fn read(&mut self) -> Result<(), Unavailable> {
        while self.read_some().await? {}
        self.directory.reached();
        if self.stale {
            self.overlay_watch.put(within(self.management.overlay()).await?);
            self.stale = false;
        }
        Ok(())
    }

    /// Applies some of the new changes. Returns whether there may be more.
    async fn read_some(&mut self) -> Result<bool, Unavailable> {
        if self.away && within(self.management.newest()).await? < self.number {
            // The database was replaced by an older one: its numbers start over, and nothing remembered is valid.
            self.restart(0);
        }
        let changes = within(self.management.since(self.number)).await?;
        // The newest change is never removed, so a reader that missed some sees a gap before the remaining ones. A
        // number that was never used leaves a gap too.
        if changes.first().is_some_and(|first| first.number > self.number + 1) {
            // The oldest is read second: a change that is removed between the two reads was old before, and is noticed.
            let oldest = within(self.management.oldest()).await?;
            if oldest > self.number + 1 {
                tracing::warn!(
                    "changes were removed before they were read here: everything is looked up again"
                );
                self.restart(oldest - 1);
            }
        }
        if !changes.is_empty() {
            self.apply(changes.iter().map(|one| one.change.clone()).collect()).await?;
        }
        for one in &changes {
            if let Change::Cache(chain) = &one.change {
                self.overlay_watch.clear_cache(Some(chain));
            }
        }
        if let Some(outgoing) = &self.outgoing {
            // If the channel is full, the other gateways read the changes themselves.
            changes.iter().take_while(|one| outgoing.try_send(Numbered::clone(one)).is_ok()).for_each(drop);
        }
        if let Some(Numbered { number, .. }) = changes.last() {
            self.number = *number;
        }
        self.stale |= changes.iter().any(|one| matches!(one.change, Change::Plan(_) | Change::Chain(_)));
        Ok(changes.len() >= AT_ONCE)
    }

    /// Drops everything remembered and continues after change `number`.
    fn restart(&mut self, number: u64) {
        self.number = number;
        self.stale = true;
        self.directory.forget(|_, _| true);
        self.overlay_watch.clear_cache(None);
    }

    /// Logs once when the database goes away and once when it returns.
    fn log_status(&mut self, away: bool) {
        match (self.away, away) {
            (false, true) => tracing::warn!(
                "the database cannot be reached: known keys are served, others get 503, changes wait"
            ),
            (true, false) => tracing::info!("the database is back"),
            _ => {}
        }
        self.away = away;
    }
}

/// Applies the begin and the end of contracts, and the later changes of plans.
async fn follow_bounds(
    directory: Arc<StoreDirectory>,
    overlay_watch: Arc<OverlayWatch>,
    closing: CancellationToken,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            _ = ticks.tick() => {}
        }
        overlay_watch.renew();
        if directory.is_due() {
            let directory = directory.clone();
            let renewed = tokio::task::spawn_blocking(move || directory.renew()).await;
            renewed.unwrap_or_else(|error| tracing::error!(%error, "contracts were not applied"));
        }
    }
}

/// Waits for changes from other gateways, and takes all that have arrived.
async fn receive(incoming: &mut Option<mpsc::Receiver<Numbered>>, received: &mut Vec<Numbered>) {
    match incoming {
        Some(incoming) if !incoming.is_closed() => {
            if incoming.recv_many(received, AT_ONCE).await == 0 {
                std::future::pending::<()>().await;
            }
        }
        _ => std::future::pending().await,
    }
}

/// Limits the wait: a frozen database answers nothing, not even an error.
async fn within<T>(answer: impl Future<Output = Result<T, Unavailable>>) -> Result<T, Unavailable> {
    tokio::time::timeout(DEADLINE, answer).await.unwrap_or(Err(Unavailable))
}

#[cfg(test)]
mod tests;

//! Retention: usage older than the configured age is removed once an hour.
//!
//! The gateway does this itself because it ships: SQLite takes one writer at a time.

use parking_lot::Mutex;
use rpcgate_config::Retention;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_store::{Removed, UsageStore};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The time to the first removal: a start has more important work.
const FIRST: Duration = Duration::from_secs(60);
/// The interval of removals.
const EVERY: Duration = Duration::from_secs(3_600);

/// The retention of usage, which may change meanwhile.
#[derive(Debug)]
pub(super) struct StoredRetention(Mutex<Retention>);

impl StoredRetention {
    pub(super) fn new(retention: &Retention) -> Self {
        StoredRetention(Mutex::new(retention.clone()))
    }

    pub(super) fn set(&self, retention: &Retention) {
        self.0.lock().clone_from(retention);
    }

    /// Returns the times before which single requests, and hourly usage, are too old at `now`.
    fn ends(&self, now: Time) -> (Time, Time) {
        let retention = self.0.lock();
        let before = |age: Duration| {
            let micros = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            Time::from_micros(now.micros().saturating_sub(micros))
        };
        (before(retention.events), before(retention.ledger))
    }
}

pub(super) async fn run(
    usage: UsageStore,
    retention: Arc<StoredRetention>,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    let mut pause = FIRST;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = closing.cancelled() => return,
        }
        pause = EVERY;
        let (events, ledger) = retention.ends(clock.now());
        let removed = tokio::select! {
            removed = usage.retain(events, ledger) => removed,
            () = closing.cancelled() => return,
        };
        match removed {
            Ok(removed) if removed == Removed::default() => {}
            Ok(Removed { blocks, rollups, .. }) => {
                tracing::info!(blocks, rollups, "old usage was removed");
            }
            Err(error) => tracing::warn!("old usage was not removed: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Usage).
    #[test]
    fn the_retention_follows_the_current_configuration() {
        let day = Duration::from_secs(86_400);
        let retention = StoredRetention::new(&Retention { events: 90 * day, ledger: 400 * day });
        let now = Time::from_secs(20_000 * 86_400);
        let days = |(events, ledger): (Time, Time)| (events.day(), ledger.day());
        assert_eq!(days(retention.ends(now)), (19_910, 19_600));
        retention.set(&Retention { events: day, ledger: 92 * day });
        assert_eq!(days(retention.ends(now)), (19_999, 19_908));
        assert_eq!(days(retention.ends(Time::from_secs(5))), (0, 0));
    }
}

//! Tells shared counters that were lost what usage knows of them.

use rpcgate_admin::store::UsageStore;
use rpcgate_core::clock::Clock;
use rpcgate_core::seam::counters::Restored;
use rpcgate_core::seam::{Away, Later};
use rpcgate_layers::redis::Seed;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// The usage database, once it is open and what the journal held is in it.
pub(super) struct UsageSeed {
    usage: watch::Sender<Option<UsageStore>>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for UsageSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageSeed").finish_non_exhaustive()
    }
}

impl UsageSeed {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        UsageSeed { usage: watch::Sender::new(None), clock }
    }

    pub(super) fn open(&self, usage: UsageStore) {
        self.usage.send_replace(Some(usage));
    }
}

impl Seed for UsageSeed {
    fn ready(&self) -> Later<'_, ()> {
        Box::pin(async {
            let mut opened = self.usage.subscribe();
            // It cannot be gone: it is borrowed.
            let _ = opened.wait_for(Option::is_some).await;
        })
    }

    fn tell(&self) -> Later<'_, Result<Restored, Away>> {
        Box::pin(async {
            let usage = self.usage.borrow().clone().ok_or(Away)?;
            usage.restore(self.clock.now()).await.map_err(|error| {
                tracing::error!("counters were not read: {error}");
                Away
            })
        })
    }
}

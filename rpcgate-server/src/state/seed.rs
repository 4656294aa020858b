//! Restores shared counters that were lost or may be inexact from the usage database.

use super::shipping::Shipping;
use rpcgate_core::backend::counters::Restored;
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::clock::Clock;
use rpcgate_layers::redis::{Recording, Seed};
use rpcgate_store::UsageStore;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The maximum time between a record's creation and its write to the journal: refusals are written together, and other
/// records just before their answers leave.
const IN_MEMORY: Duration = Duration::from_secs(1);

/// The usage database, once it is open and has the content of the journal.
pub(super) struct UsageSeed {
    usage: watch::Sender<Option<Opened>>,
    shipping: Arc<Shipping>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct Opened {
    usage: UsageStore,
    /// Its identity, if other gateways can record in it too.
    store: Option<Arc<str>>,
}

impl fmt::Debug for UsageSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageSeed").finish_non_exhaustive()
    }
}

impl UsageSeed {
    pub(super) fn new(clock: Arc<dyn Clock>, shipping: Arc<Shipping>) -> Self {
        UsageSeed { usage: watch::Sender::new(None), shipping, clock }
    }

    pub(super) fn open(&self, usage: UsageStore, store: Option<String>) {
        self.usage.send_replace(Some(Opened { usage, store: store.map(Into::into) }));
    }

    fn opened(&self) -> Result<Opened, Unavailable> {
        self.usage.borrow().clone().ok_or(Unavailable)
    }
}

impl Seed for UsageSeed {
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut opened = self.usage.subscribe();
            // The sender cannot be gone: it is borrowed.
            let _ = opened.wait_for(Option::is_some).await;
        })
    }

    fn counts(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        Box::pin(async {
            let usage = self.opened()?.usage;
            usage.restore(self.clock.now()).await.map_err(|error| {
                tracing::error!("counters were not read: {error}");
                Unavailable
            })
        })
    }

    fn recording(&self) -> Option<Recording> {
        let store = self.usage.borrow().as_ref()?.store.clone()?;
        let lag = self.shipping.read(self.clock.elapsed()).lag;
        Some(Recording { store, behind: lag.saturating_add(IN_MEMORY) })
    }

    fn recorded(&self) -> BoxFuture<'_, Result<Restored, Unavailable>> {
        Box::pin(async {
            let usage = self.opened()?.usage;
            usage.recorded(self.clock.now()).await.map_err(|error| {
                tracing::debug!("recorded usage was not read: {error}");
                Unavailable
            })
        })
    }
}

//! The tasks of a state: they open the databases, ship the old journal, restore the counters and admit calls.

use super::Stage;
use super::allowances::Stored;
use super::directory::{KeySource, StoreDirectory};
use super::explain::{self, ExplanationSource};
use super::feed::{Feed, Management};
use super::overlay_watch::OverlayWatch;
use super::report::{self, StatusSource};
use super::retain::{self, StoredRetention};
use super::seed::UsageSeed;
use super::ship::{Shipper, UsageDestination};
use super::shipping::Shipping;
use crate::counting::Counting;
use crate::journal::Journal;
use rpcgate_config::{Overlay, Plans};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::secret::KeyHash;
use rpcgate_layers::redis::ChangeRelay;
use rpcgate_store::{ConfigRecording, Store, StoreError, StoredKey, UsageStore};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The pause between two attempts at a step of the start.
const PAUSE: Duration = Duration::from_millis(500);
/// The time that a start waits for other gateways' counters before it counts alone.
const JOIN: Duration = Duration::from_secs(2);
/// The time limit of the last shipment at shutdown.
const LAST: Duration = Duration::from_secs(5);

/// The capacity of the queues of changes to and from other gateways.
const RELAYED: usize = 1_000;

pub(super) struct Work {
    pub(super) url: String,
    pub(super) migrate: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) journal: Arc<Journal>,
    pub(super) directory: Arc<StoreDirectory>,
    pub(super) counters: Counting,
    pub(super) relay: Option<ChangeRelay>,
    pub(super) seed: Arc<UsageSeed>,
    pub(super) overlay_watch: Arc<OverlayWatch>,
    pub(super) retention: Arc<StoredRetention>,
    pub(super) status_source: Arc<StatusSource>,
    pub(super) explanation_source: Arc<ExplanationSource>,
    pub(super) shipping: Arc<Shipping>,
    pub(super) recording: Option<ConfigRecording>,
    pub(super) stage: watch::Sender<Stage>,
    pub(super) closing: CancellationToken,
}

/// The connections that are open when the tasks end.
#[derive(Debug, Default)]
pub(super) struct OpenStores {
    store: Option<Store>,
    usage: Option<UsageStore>,
    shipper: Option<Shipper>,
}

impl Work {
    pub(super) async fn run(mut self) -> OpenStores {
        let mut left = OpenStores::default();
        let relay = self.relay.take();
        let Some(mut feed) = self.start(&mut left).await else { return left };
        let shipper = left.shipper.take();
        let usage = left.usage.clone();
        let store = left.store.clone();
        let (Some(shipper), Some(usage), Some(store)) = (shipper, usage, store) else { return left };
        self.journal.admit();
        self.stage.send_replace(Stage::Ready);
        tracing::info!("ready: earlier records are shipped and counted again");
        let notify = feed.notify();
        let closing = self.closing.clone();
        let telling = store.clone();
        let requested = Arc::<Notify>::default();
        let on_request = requested.clone();
        let notifications = tokio::spawn(async move {
            let on_change = || {
                notify.notify_one();
                on_request.notify_one();
            };
            tokio::select! {
                () = telling.notifications(&on_change) => {}
                () = closing.cancelled() => {}
            }
        });
        let mut tasks = vec![notifications];
        if let Some(relay) = relay {
            let ((outgoing, to_send), (received, incoming)) =
                (mpsc::channel(RELAYED), mpsc::channel(RELAYED));
            // It ends with the feed, which sends to it.
            tasks.push(tokio::spawn(relay.run(to_send, received)));
            feed = feed.relayed(outgoing, incoming);
        }
        if let Some(recording) = self.recording.take() {
            let recorded = recording.run(store.clone(), self.clock.clone());
            let closing = self.closing.clone();
            tasks.push(tokio::spawn(async move {
                tokio::select! {
                    () = recorded => {}
                    () = closing.cancelled() => {}
                }
            }));
        }
        tasks.push(tokio::spawn(feed.run(self.closing.clone())));
        let retention = retain::run(usage, self.retention.clone(), self.clock.clone(), self.closing.clone());
        tasks.push(tokio::spawn(retention));
        let source = self.explanation_source.clone();
        let explaining =
            explain::run(store.clone(), source, requested, self.clock.clone(), self.closing.clone());
        tasks.push(tokio::spawn(explaining));
        let gateway = self.journal.gateway();
        let status_source = self.status_source.clone();
        let report = report::run(store, gateway, status_source, self.clock.clone(), self.closing.clone());
        tasks.push(tokio::spawn(report));
        let shipping = tokio::spawn(shipper.run(self.closing.clone()));
        match shipping.await {
            Ok(shipper) => left.shipper = Some(shipper),
            Err(error) => tracing::error!("shipping has ended: {error}"),
        }
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!("a task of the state has ended: {error}");
            }
        }
        left
    }

    /// Runs the steps that must come before calls. Returns `None` if `closing` comes first.
    async fn start(&self, left: &mut OpenStores) -> Option<Feed> {
        let url = self.url.as_str();
        let migrate = self.migrate;
        let store = self.patiently("the database", || Box::pin(Store::open(url, migrate))).await?;
        left.store = Some(store.clone());
        let usage = self.patiently("the usage database", || Box::pin(UsageStore::open(url, migrate))).await?;
        left.usage = Some(usage.clone());
        let destination: Arc<dyn UsageDestination> = Arc::new(usage.clone());
        let shipper = Shipper::new(self.journal.clone(), destination, self.clock.clone());
        let shipper = left.shipper.insert(shipper.showing(self.shipping.clone()));
        tokio::select! {
            () = shipper.ship_all() => {}
            () = self.closing.cancelled() => return None,
        }
        let restored = self.patiently("counters", || Box::pin(usage.restore(self.clock.now()))).await?;
        self.counters.restore(&restored);
        let name = self.patiently("the usage database's identity", || Box::pin(identity(&usage))).await?;
        self.seed.open(usage.clone(), name);
        tokio::select! {
            () = self.counters.joined(JOIN) => {}
            () = self.closing.cancelled() => return None,
        }
        let directory = self.directory.clone();
        let clock = self.clock.clone();
        shipper.notify(Arc::new(Stored { store: store.clone(), directory, clock }));
        let store = Arc::new(store);
        let start = || Feed::start(store.clone(), self.directory.clone(), self.overlay_watch.clone());
        let feed = self.patiently("the change feed", || Box::pin(start())).await?;
        // Not before the feed's number is known: keys that are looked up from here on are dropped when they change.
        self.directory.open(store);
        Some(feed)
    }

    /// Repeats a step until it succeeds and logs its errors. Returns `None` if `closing` comes first.
    async fn patiently<'a, T, E: Display>(
        &self,
        what: &str,
        attempt: impl Fn() -> BoxFuture<'a, Result<T, E>>,
    ) -> Option<T> {
        let mut logged: Option<String> = None;
        loop {
            let done = tokio::select! {
                done = attempt() => done,
                () = self.closing.cancelled() => return None,
            };
            match done {
                Ok(done) => {
                    if logged.is_some() {
                        tracing::info!("{what}: available");
                    }
                    return Some(done);
                }
                Err(error) => {
                    let why = error.to_string();
                    if logged.as_ref() != Some(&why) {
                        tracing::error!("waiting for {what}, unready until then: {why}");
                        logged = Some(why);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.closing.cancelled() => return None,
            }
        }
    }
}

/// Returns the identity of the database, if other gateways can record in it too.
async fn identity(usage: &UsageStore) -> Result<Option<String>, StoreError> {
    match usage.identity().await {
        Err(away @ StoreError::Unavailable(_)) => Err(away),
        Err(error) => {
            tracing::warn!("counters in Redis are not compared with the usage database: {error}");
            Ok(None)
        }
        known => known,
    }
}

impl OpenStores {
    /// Ships the remaining records, and closes all connections.
    pub(super) async fn close(self) {
        if let Some(mut shipper) = self.shipper
            && tokio::time::timeout(LAST, shipper.ship_all()).await.is_err()
        {
            let bytes = shipper.left();
            tracing::warn!(bytes, "usage stays in the journal and is shipped at the next start");
        }
        let close = async {
            if let Some(usage) = self.usage {
                usage.close().await;
            }
            if let Some(store) = self.store {
                store.close().await;
            }
        };
        if tokio::time::timeout(LAST, close).await.is_err() {
            tracing::warn!("the databases do not answer: closed without them");
        }
    }
}

impl KeySource for Store {
    fn look_up<'a>(
        &'a self,
        hash: KeyHash,
        plans: &'a Plans,
        now: Time,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>> {
        Box::pin(async move { self.caller(hash, plans, now).await.map_err(|error| away("a key", &error)) })
    }
}

impl Management for Store {
    fn overlay(&self) -> BoxFuture<'_, Result<Overlay, Unavailable>> {
        Box::pin(
            async move { self.overlay().await.map_err(|error| away("the settings of operators", &error)) },
        )
    }

    fn newest(&self) -> BoxFuture<'_, Result<u64, Unavailable>> {
        Box::pin(async move { self.newest_change().await.map_err(|error| away("the change feed", &error)) })
    }

    fn oldest(&self) -> BoxFuture<'_, Result<u64, Unavailable>> {
        Box::pin(async move { self.oldest_change().await.map_err(|error| away("the change feed", &error)) })
    }
}

/// Logs the cause and returns the error for callers, which is the same for all causes.
fn away(what: &str, error: &StoreError) -> Unavailable {
    match error {
        StoreError::Unavailable(_) => tracing::debug!("{what} was not read: {error}"),
        _ => tracing::error!("{what} was not read: {error}"),
    }
    Unavailable
}

//! The persistent state: usage, counters, accounts.
//!
//! A record goes to the [journal](crate::journal) before its answer leaves, and from there into the usage database
//! (`ship`). Keys are looked up in the management database and remembered ([`directory`]); its change feed says which
//! to forget and which settings to apply (`feed`). A start ships the content of the journal first, and then restores
//! the counters (`restore`). Until then, and while the databases cannot be reached at a start, the gateway is not
//! ready: it must not serve calls that it cannot count.

mod allowances;
mod batcher;
pub mod directory;
mod explain;
mod feed;
mod keys;
mod overlay_watch;
mod report;
mod restore;
mod retain;
mod seed;
mod ship;
mod shipping;
#[cfg(test)]
mod tests;

pub(crate) use keys::Keys;
pub(crate) use report::GatewayStatus;

use crate::counting::Counting;
use crate::journal::{Journal, JournalOptions};
use crate::start_error::StartError;
use directory::StoreDirectory;
use explain::ExplanationSource;
use overlay_watch::OverlayWatch;
use parking_lot::Mutex;
use report::StatusSource;
use restore::{OpenStores, Work};
use retain::StoredRetention;
use rpcgate_config::{Config, Overlay, Retention};
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_core::caller::{RequestId, TenantId};
use rpcgate_core::clock::Clock;
use rpcgate_process::{host_name, origin};
use rpcgate_store::{AcceptedConfig, ConfigRecorder, ConfigScope, Explanation, check_url};
use seed::UsageSeed;
use shipping::Shipping;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The state that a gateway stores beyond its process.
pub struct State {
    journal: Arc<Journal>,
    directory: Arc<StoreDirectory>,
    counters: Counting,
    overlay_watch: Arc<OverlayWatch>,
    retention: Arc<StoredRetention>,
    status_source: Arc<StatusSource>,
    explanation_source: Arc<ExplanationSource>,
    shipping: Arc<Shipping>,
    recorder: ConfigRecorder,
    host: String,
    /// The configuration file and its host.
    origin: OnceLock<String>,
    clock: Arc<dyn Clock>,
    stage: watch::Receiver<Stage>,
    closing: CancellationToken,
    work: Mutex<Option<JoinHandle<OpenStores>>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It waits for the database, or ships the content of the journal.
    Starting,
    Ready,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("stage", &*self.stage.borrow()).finish_non_exhaustive()
    }
}

impl State {
    /// Opens the journal and starts to open the databases. Must run inside a tokio runtime.
    ///
    /// The usage sink, the directory and the counters can be used at once; calls are admitted once the databases are
    /// open. If a database cannot be reached, the start waits for it and logs that.
    ///
    /// # Errors
    /// [`StartError::Journal`] and [`StartError::Database`].
    pub fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<State, StartError> {
        database(config)?;
        let options = JournalOptions {
            shards: Handle::current().metrics().num_workers(),
            ..JournalOptions::new(&config.journal, clock.clone())
        };
        let journal = Journal::open(options)?;
        let forge = config.gateway.key_forge();
        let directory = Arc::new(StoreDirectory::new(forge, config.plans.clone(), clock.clone()));
        let shipping = Arc::<Shipping>::default();
        let seed = Arc::new(UsageSeed::new(clock.clone(), shipping.clone()));
        let overlay_watch = Arc::new(OverlayWatch::new(clock.clone()));
        let counters = Counting::open(config, seed.clone())?;
        let relay = Counting::relay(config)?;
        let retention = Arc::new(StoredRetention::new(&config.retention));
        let status_source = Arc::<StatusSource>::default();
        let explanation_source = Arc::<ExplanationSource>::default();
        let (recorder, recording) = ConfigRecorder::new();
        let (stage_sender, stage) = watch::channel(Stage::Starting);
        let closing = CancellationToken::new();
        let work = Work {
            url: config.database.url().to_owned(),
            migrate: config.database.migrate,
            clock: clock.clone(),
            journal: journal.clone(),
            directory: directory.clone(),
            counters: counters.clone(),
            relay,
            seed,
            overlay_watch: overlay_watch.clone(),
            retention: retention.clone(),
            status_source: status_source.clone(),
            explanation_source: explanation_source.clone(),
            shipping: shipping.clone(),
            recording: Some(recording),
            stage: stage_sender,
            closing: closing.clone(),
        };
        let work = Mutex::new(Some(tokio::spawn(work.run())));
        Ok(State {
            journal,
            directory,
            counters,
            overlay_watch,
            retention,
            status_source,
            explanation_source,
            shipping,
            recorder,
            host: host_name(),
            origin: OnceLock::new(),
            clock,
            stage,
            closing,
            work,
        })
    }

    /// Reports the errors of [`open`](State::open) without opening anything.
    ///
    /// # Errors
    /// [`StartError::Folder`] and [`StartError::Database`].
    pub fn check(config: &Config) -> Result<(), StartError> {
        database(config)?;
        let dir: &Path = &config.journal.dir;
        // A start creates a missing folder.
        match std::fs::metadata(dir) {
            Ok(found) if !found.is_dir() => {
                Err(StartError::Folder { path: dir.display().to_string(), why: "is not a folder".into() })
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StartError::Folder { path: dir.display().to_string(), why: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the sink for records.
    pub fn sink(&self) -> Arc<dyn UsageSink> {
        self.journal.clone()
    }

    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    pub(crate) fn shipping(&self) -> &Shipping {
        &self.shipping
    }

    /// Returns the keys of the management database.
    pub fn directory(&self) -> Arc<StoreDirectory> {
        self.directory.clone()
    }

    pub(crate) fn counters(&self) -> Counting {
        self.counters.clone()
    }

    /// Reports whether calls are admitted.
    pub fn is_ready(&self) -> bool {
        *self.stage.borrow() == Stage::Ready && !self.closing.is_cancelled()
    }

    /// Waits until calls are admitted. Returns `false` if the state was closed before.
    pub async fn ready(&self) -> bool {
        // The sender of the stage is dropped with the work, which ends when the state is closed.
        self.stage.clone().wait_for(|stage| *stage == Stage::Ready).await.is_ok()
            && !self.closing.is_cancelled()
    }

    /// Passes the operators' settings to `sink` at every change, and at once if they are known.
    pub(crate) fn attach(&self, sink: impl Fn(&Overlay) -> Result<(), StartError> + Send + Sync + 'static) {
        self.overlay_watch.attach(Box::new(move |overlay| match sink(overlay) {
            Ok(()) => tracing::info!("the settings of operators are in effect"),
            Err(error) => tracing::error!("the settings of operators cannot be applied: {error}"),
        }));
    }

    /// Passes operators' commands to empty the cache of a chain, or of all chains for `None`, to `sink`.
    pub(crate) fn attach_caches(&self, sink: impl Fn(Option<&str>) + Send + Sync + 'static) {
        self.overlay_watch.attach_caches(Box::new(sink));
    }

    /// Reports the gateway's status from `source` to the management side.
    pub(crate) fn report_status(&self, source: impl Fn() -> GatewayStatus + Send + Sync + 'static) {
        self.status_source.ask(source);
    }

    /// Explains requests to the management side. `source` returns a request's tenant and explanation.
    pub(crate) fn explain_from(
        &self,
        source: impl Fn(RequestId) -> Option<(TenantId, Explanation)> + Send + Sync + 'static,
    ) {
        self.explanation_source.attach(Arc::new(source));
    }

    /// Sets the file of the configuration, which its stored versions show to people. Only the first call counts.
    pub fn name_file(&self, file: &Path) {
        // A second one would be another program's.
        let _ = self.origin.set(origin(&self.host, Some(file)));
    }

    /// Stores an accepted configuration as a version.
    pub(crate) fn record_config(&self, config: &Config, is_start: bool) {
        let scope = ConfigScope::Gateway(self.journal.gateway().to_string());
        let who = self.origin.get().unwrap_or(&self.host).clone();
        let origin = (self.host.clone(), who);
        self.recorder.record(AcceptedConfig::new(config, scope, origin, is_start, self.clock.now()));
    }

    pub(crate) fn keep_for(&self, retention: &Retention) {
        self.retention.set(retention);
    }

    /// Closes the state after the last call. It ships the journal if the database takes it within a few seconds; the
    /// rest stays in the journal for the next start. A second close does nothing.
    pub async fn close(&self) {
        self.closing.cancel();
        let Some(work) = self.work.lock().take() else { return };
        // The journal may wait for its disk. A separate thread does not keep the process from ending.
        let (done, closed) = tokio::sync::oneshot::channel();
        let journal = self.journal.clone();
        let thread = std::thread::Builder::new().name("journal-close".into()).spawn(move || {
            journal.close();
            // The receiver may be gone.
            let _ = done.send(());
        });
        match thread {
            // It cannot end without closing the journal, except by a panic, which is logged elsewhere.
            Ok(_) => drop(closed.await),
            Err(error) => {
                tracing::error!("the thread that closes the journal cannot be started: {error}");
                self.journal.close();
            }
        }
        match work.await {
            Ok(left) => left.close().await,
            Err(error) => tracing::error!("usage was not shipped: {error}"),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

fn database(config: &Config) -> Result<(), StartError> {
    check_url(config.database.url()).map_err(|error| StartError::Database(error.to_string()))
}

//! What outlives the process: usage, counters, accounts.
//!
//! A record goes to the [journal](crate::journal) before its answer leaves, and from there into the usage database
//! (`ship`). Keys are looked up in the management database and remembered ([`directory`]); its change feed says what to
//! forget and what else to put in force (`feed`). At the start, what the journal holds is shipped first, and then
//! counters are what they were (`restore`). Until then, and for as long as there is no database to ask, the gateway
//! is unready: it must not serve what it cannot count.

mod allowances;
mod batcher;
pub mod directory;
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
use overlay_watch::OverlayWatch;
use parking_lot::Mutex;
use report::StatusSource;
use restore::{Left, Work};
use retain::Kept;
use rpcgate_admin::store::check_url;
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_core::clock::Clock;
use rpcgate_core::config::{Config, Overlay, Retention};
use rpcgate_core::secret::KeyForge;
use seed::UsageSeed;
use shipping::Shipping;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What one gateway keeps beyond its process.
pub struct State {
    journal: Arc<Journal>,
    directory: Arc<StoreDirectory>,
    counters: Counting,
    overlay_watch: Arc<OverlayWatch>,
    kept: Arc<Kept>,
    status_source: Arc<StatusSource>,
    shipping: Arc<Shipping>,
    stage: watch::Receiver<Stage>,
    closing: CancellationToken,
    work: Mutex<Option<JoinHandle<Left>>>,
}

/// How far a state has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The database is waited for, or what the journal holds is shipped.
    Starting,
    /// Calls may come.
    Ready,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("stage", &*self.stage.borrow()).finish_non_exhaustive()
    }
}

impl State {
    /// Opens the journal, and begins to open the databases. Runs inside a tokio runtime.
    ///
    /// The usage sink, the directory and the counters are there at once; calls are admitted once the databases are. A database that
    /// cannot be reached is waited for, and the log says so.
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
        let secret = config.gateway.key_secret.as_ref();
        let forge = secret.map(|secret| KeyForge::new(secret.expose().as_bytes()));
        let directory = Arc::new(StoreDirectory::new(forge, config.plans.clone(), clock.clone()));
        let shipping = Arc::<Shipping>::default();
        let seed = Arc::new(UsageSeed::new(clock.clone(), shipping.clone()));
        let overlay_watch = Arc::<OverlayWatch>::default();
        let (counters, relay) = (Counting::open(config, seed.clone())?, Counting::relay(config)?);
        let (kept, status_source) = (Arc::new(Kept::new(&config.retention)), Arc::<StatusSource>::default());
        let (told, stage) = watch::channel(Stage::Starting);
        let closing = CancellationToken::new();
        let work = Work {
            url: config.database.url().to_owned(),
            migrate: config.database.migrate,
            clock,
            journal: journal.clone(),
            directory: directory.clone(),
            counters: counters.clone(),
            relay,
            seed,
            overlay_watch: overlay_watch.clone(),
            kept: kept.clone(),
            status_source: status_source.clone(),
            shipping: shipping.clone(),
            stage: told,
            closing: closing.clone(),
        };
        let work = Mutex::new(Some(tokio::spawn(work.run())));
        Ok(State {
            journal,
            directory,
            counters,
            overlay_watch,
            kept,
            status_source,
            shipping,
            stage,
            closing,
            work,
        })
    }

    /// Looks at what [`open`](State::open) would refuse, without opening anything.
    ///
    /// # Errors
    /// [`StartError::Folder`] and [`StartError::Database`].
    pub fn check(config: &Config) -> Result<(), StartError> {
        database(config)?;
        let dir: &Path = &config.journal.dir;
        // A folder that is missing is made.
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

    /// Where records go.
    pub fn sink(&self) -> Arc<dyn UsageSink> {
        self.journal.clone()
    }

    /// The journal, which counts calls.
    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// How shipping fares.
    pub(crate) fn shipping(&self) -> &Shipping {
        &self.shipping
    }

    /// The keys of the management database.
    pub fn directory(&self) -> Arc<StoreDirectory> {
        self.directory.clone()
    }

    /// What is counted.
    pub(crate) fn counters(&self) -> Counting {
        self.counters.clone()
    }

    /// Whether calls may come.
    pub fn is_ready(&self) -> bool {
        *self.stage.borrow() == Stage::Ready && !self.closing.is_cancelled()
    }

    /// Waits until calls may come. `false`: it was closed before.
    pub async fn ready(&self) -> bool {
        // Whoever tells the stage ends with the work, and that ends when this is closed.
        self.stage.clone().wait_for(|stage| *stage == Stage::Ready).await.is_ok()
            && !self.closing.is_cancelled()
    }

    /// Hands what operators set to `sink` whenever it changes: at once, if it is known.
    pub(crate) fn attach(&self, sink: impl Fn(&Overlay) -> Result<(), StartError> + Send + Sync + 'static) {
        self.overlay_watch.attach(Box::new(move |overlay| match sink(overlay) {
            Ok(()) => tracing::info!("what operators set is in force"),
            Err(error) => tracing::error!("what operators set cannot be put in force: {error}"),
        }));
    }

    /// Tells the management side how the gateway stands, which `source` knows.
    pub(crate) fn report_status(&self, source: impl Fn() -> GatewayStatus + Send + Sync + 'static) {
        self.status_source.ask(source);
    }

    /// Keeps usage for as long as `retention` says from now on.
    pub(crate) fn keep_for(&self, retention: &Retention) {
        self.kept.set(retention);
    }

    /// Ends it: to be called after the last call. What the journal holds is shipped, if the database takes it within
    /// some seconds; what is not shipped stays in the journal for the next start. Closed twice is closed.
    pub async fn close(&self) {
        self.closing.cancel();
        let Some(work) = self.work.lock().take() else { return };
        // The journal may wait for its disk. A thread of its own does not keep the process from ending.
        let (done, closed) = tokio::sync::oneshot::channel();
        let journal = self.journal.clone();
        let thread = std::thread::Builder::new().name("journal-close".into()).spawn(move || {
            journal.close();
            // Nobody may be left to hear it.
            let _ = done.send(());
        });
        match thread {
            // It cannot end without having been closed, unless closing panics, which is told elsewhere.
            Ok(_) => drop(closed.await),
            Err(error) => {
                tracing::error!("no thread to close the journal with: {error}");
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

/// The URL of a database that there can be.
fn database(config: &Config) -> Result<(), StartError> {
    check_url(config.database.url()).map_err(|error| StartError::Database(error.to_string()))
}

//! The usage database: rollups, single events in blocks, and up to where gateways' journals are in them.

use super::connect::{DEADLINE, Database};
use super::database_location::DatabaseLocation;
use super::server::AdvisoryLock;
use super::shares::Shares;
use super::{StoreError, migration};
use rpcgate_core::usage::bound::KnownRows;
use rpcgate_core::usage::method::KnownMethods;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The usage database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct UsageStore {
    pub(super) database: Database,
    /// Methods that are known to be there: see [`UsageStore::ship`].
    known: Arc<Mutex<KnownMethods>>,
    /// Rows that are known to be there.
    rows: Arc<Mutex<KnownRows>>,
    /// When, in the time of what is shipped, sums are to be tried again that failed: see `query::summed`.
    pub(super) sums_rest_until: Arc<AtomicU64>,
    /// What each tenant has of the readers.
    pub(super) shares: Arc<Shares>,
    pub(super) bounds: Bounds,
}

/// How many rows a question about usage may read. Each name that it groups by costs about as much as to add the rows
/// up, so these are rows of a question that groups by none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// With more it is large, and few are answered at a time.
    pub(super) large: u64,
    /// With more it is refused. So many are added up in half of [`DEADLINE`].
    pub(super) most: u64,
}

impl Bounds {
    /// Those of a question that groups by so many `names`.
    pub(super) fn grouped_by(self, names: usize) -> Self {
        let parts = names as u64 + 1;
        Bounds { large: self.large / parts, most: self.most / parts }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { large: 80_000, most: 1_000_000 }
    }
}

/// Why a shipment was not taken. None of it was.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// A mark does not stand where the shipment begins: it was shipped before, or another part was. Read the marks
    /// and begin there.
    #[error("the journal was shipped up to another place meanwhile")]
    Moved,
    /// The database did not take it. With [`StoreError::Unavailable`] it may have done so nevertheless: ship it again, and
    /// if it had, that is [`ShipError::Moved`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DbErr> for ShipError {
    fn from(error: DbErr) -> Self {
        ShipError::Store(error.into())
    }
}

/// What was removed because of its age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Blocks of events.
    pub blocks: u64,
    /// Rollups.
    pub rollups: u64,
    /// Marks of segments of journals.
    pub marks: u64,
    /// Entries of the billing ledger.
    pub charges: u64,
    /// Notifications.
    pub notifications: u64,
}

impl UsageStore {
    /// Opens the usage database that belongs to the management database at `url` (`database.url`). For SQLite it is a
    /// file of its own beside it: usage of `rpcgate.db` is in `rpcgate-usage.db`. On a PostgreSQL server it is the same
    /// database. With `migrate` the file is made if it is missing, and its schema is brought up to date.
    ///
    /// # Errors
    /// Those of [`Store::open`](super::Store::open).
    pub async fn open(url: &str, migrate: bool) -> Result<Self, StoreError> {
        Self::open_at(&DatabaseLocation::parse(url)?.usage(), migrate, DEADLINE).await
    }

    pub(super) async fn open_at(
        place: &DatabaseLocation,
        migrate: bool,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let database =
            Database::open::<migration::Usage>(place, migrate, AdvisoryLock::Usage, deadline).await?;
        Ok(UsageStore {
            database,
            known: Arc::default(),
            rows: Arc::default(),
            sums_rest_until: Arc::default(),
            shares: Arc::default(),
            bounds: Bounds::default(),
        })
    }

    /// Ends all connections of this store and its clones, which folds SQLite's log into the file.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// Reads, within the deadline.
    pub(super) async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.read(work).await
    }

    /// Reads what stood there at one moment, within the deadline.
    pub(super) async fn look<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.look(work).await
    }

    /// The same within another deadline.
    pub(super) async fn look_patiently<T>(
        &self,
        patience: Duration,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self.database.patient(patience);
        let is_served = database.server().is_some();
        database
            .look(async |moment| {
                if is_served {
                    let timeout = format!("SET LOCAL statement_timeout = {}", patience.as_millis());
                    moment.execute_unprepared(&timeout).await?;
                }
                work(moment).await
            })
            .await
    }

    /// Does `work` in one transaction, within the deadline: all of it or nothing.
    pub(super) async fn write<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.database.transact(work).await
    }

    /// The same for removing what is old, which one program at a time does: nothing, if another is at it.
    pub(super) async fn retire<T: Default>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        Ok(self.database.transact_alone(AdvisoryLock::Retention, work).await?.unwrap_or_default())
    }

    pub(super) fn rows(&self) -> MutexGuard<'_, KnownRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, KnownMethods> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "usage/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

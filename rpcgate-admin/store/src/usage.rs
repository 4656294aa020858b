//! The usage database: rollups, single events in blocks, and the marks up to which gateway journals have been shipped.

use super::connect::{DEADLINE, Database};
use super::database_location::DatabaseLocation;
use super::server::AdvisoryLock;
use super::shares::UsagePermits;
use super::{StoreError, migration};
use rpcgate_core::backend::BoxFuture;
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
    /// Methods that are known to be stored: see [`UsageStore::ship`].
    known: Arc<Mutex<KnownMethods>>,
    rows: Arc<Mutex<KnownRows>>,
    /// The time, by the clock of the shipped records, at which failed sums are retried: see `query::summed`.
    pub(super) sums_retry_at: Arc<AtomicU64>,
    pub(super) permits: Arc<UsagePermits>,
    pub(super) bounds: Bounds,
}

/// The limits on the rows that a usage query may read. Each column in the grouping costs about the same as adding up
/// the rows, so these numbers are for a query without grouping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The row count above which a query is large; few of those run at a time.
    pub(super) large: u64,
    /// The row count above which a query is refused. This many rows are added up in half of [`DEADLINE`].
    pub(super) max: u64,
}

impl Bounds {
    pub(super) fn grouped_by(self, names: usize) -> Self {
        let parts = names as u64 + 1;
        Bounds { large: self.large / parts, max: self.max / parts }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { large: 80_000, max: 1_000_000 }
    }
}

/// The reason why a shipment was not stored. No part of it was.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// A mark differs from the start of the shipment: this shipment or another part was stored before. Read the marks
    /// again and continue from there.
    #[error("the journal's marks have moved since they were read")]
    Moved,
    /// The database did not store it. After [`StoreError::Unavailable`] it may have done so nevertheless: ship it
    /// again, and the result is [`ShipError::Moved`] if it had.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DbErr> for ShipError {
    fn from(error: DbErr) -> Self {
        ShipError::Store(error.into())
    }
}

/// The numbers of rows that were removed because of their age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Blocks of events.
    pub blocks: u64,
    /// Rollups.
    pub rollups: u64,
    /// Marks of journal segments.
    pub marks: u64,
    /// Entries of the billing ledger.
    pub charges: u64,
    /// Notifications.
    pub notifications: u64,
}

impl UsageStore {
    /// Opens the usage database that belongs to the management database at `url` (`database.url`). With SQLite it is a
    /// separate file: the usage of `rpcgate.db` is in `rpcgate-usage.db`. On a PostgreSQL server it is the same
    /// database. With `migrate`, creates the file if it is missing and brings its schema up to date.
    ///
    /// # Errors
    /// Those of [`Store::open`](super::Store::open).
    pub fn open(url: &str, migrate: bool) -> BoxFuture<'_, Result<Self, StoreError>> {
        Box::pin(
            async move { Self::open_at(&DatabaseLocation::parse(url)?.usage(), migrate, DEADLINE).await },
        )
    }

    pub(super) async fn open_at(
        location: &DatabaseLocation,
        migrate: bool,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let database =
            Database::open::<migration::Usage>(location, migrate, AdvisoryLock::Usage, deadline).await?;
        Ok(UsageStore {
            database,
            known: Arc::default(),
            rows: Arc::default(),
            sums_retry_at: Arc::default(),
            permits: Arc::default(),
            bounds: Bounds::default(),
        })
    }

    /// Closes all connections of this store and its clones, which checkpoints SQLite's log into the file.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.database.close().await;
        })
    }

    pub(super) async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.read(work).await
    }

    pub(super) async fn snapshot<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.snapshot(work).await
    }

    /// Reads one consistent snapshot within `deadline` instead of the store's own.
    pub(super) async fn snapshot_within<T>(
        &self,
        deadline: Duration,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self.database.with_deadline(deadline);
        let is_on_server = database.server().is_some();
        database
            .snapshot(async |snapshot| {
                if is_on_server {
                    let timeout = format!("SET LOCAL statement_timeout = {}", deadline.as_millis());
                    snapshot.execute_unprepared(&timeout).await?;
                }
                work(snapshot).await
            })
            .await
    }

    pub(super) async fn write<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.database.transact(work).await
    }

    /// Runs `work`, which removes old rows, in one transaction. Does nothing while another program removes them.
    pub(super) async fn remove_old<T: Default>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        Ok(self.database.transact_exclusive(AdvisoryLock::Retention, work).await?.unwrap_or_default())
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

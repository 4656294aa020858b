//! The database. Only here is SQL spoken.
//!
//! [`Store`] holds what the management side decides: tenants, users, projects, keys, quotas, and what operators set
//! over the configuration. Every write is one transaction, and what a gateway must hear of stands in it as a row of the
//! change feed, which the store tells as core's [`Changes`](rpcgate_core::seam::changes::Changes). [`UsageStore`] holds
//! what was used.

mod connect;
mod entity;
mod error;
mod migration;
mod query;
mod usage;

pub use crate::usage::{Block, Mark, Restored, Shipment};
pub use connect::url_of;
pub use error::StoreError;
pub use query::{Key, Project, StoredKey, Tenant, User, UserId};
pub use usage::{Removed, ShipError, UsageStore};

use connect::{DEADLINE, Database, Place};
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Time;
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use std::time::Duration;

/// The management database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
}

impl Store {
    /// Opens the database at `url` (`database.url`): `sqlite://` and the name of a file, which is made if it is
    /// missing. With `migrate` its schema is brought up to date.
    ///
    /// # Errors
    /// [`StoreError::Url`] for what is no such URL, [`StoreError::File`] if the file cannot be made or opened,
    /// [`StoreError::Outdated`] if the schema is not up to date and `migrate` is false, [`StoreError::Away`].
    pub async fn open(url: &str, migrate: bool) -> Result<Self, StoreError> {
        Self::open_within(url, migrate, DEADLINE).await
    }

    async fn open_within(url: &str, migrate: bool, deadline: Duration) -> Result<Self, StoreError> {
        let place = Place::parse(url)?;
        let database = Database::open::<migration::Management>(&place, migrate, deadline).await?;
        Ok(Store { database })
    }

    /// Ends all connections of this store and its clones, which folds SQLite's log into the file.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// Reads, within the deadline.
    async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.bounded(work(self.database.reader())).await
    }

    /// Does `work` in one transaction, within the deadline: all of it or nothing.
    async fn write<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.transact(work).await
    }
}

/// A new identifier for a row: a UUID of version 7, so that rows are stored in the order they were made.
pub fn fresh_id(now: Time) -> u128 {
    RequestId::new(now).0
}

//! The database. Only here is SQL spoken.
//!
//! [`Store`] holds what the management side decides: tenants, users and their sessions, projects, keys, quotas, and what
//! operators set over the configuration. Every write is one transaction, and what a gateway must hear of stands in it as
//! a row of the change feed, which the store tells as core's [`ChangeFeed`](rpcgate_core::backend::changes::ChangeFeed). What
//! people want to be able to look up later stands in it as an entry of the audit. [`UsageStore`] holds what was used.

mod connect;
mod database_location;
mod entity;
mod error;
mod interrupt;
mod migration;
mod notify;
mod query;
mod queue;
mod server;
mod shares;
#[cfg(test)]
pub(crate) mod site;
mod tls;
mod usage;

pub use database_location::{check_url, url_of};
pub use error::StoreError;
pub use query::{
    ATTEMPTS, Account, AccountFilter, Attempt, AttemptTicket, Audit, AuditSubject, Counted, Digest,
    EmailAsked, EmailChange, EmailChanged, GatewayReport, Invitation, InvitationId, Invited, Joining, Key,
    LOCK, LimitRequest, LimitRequestId, Lives, MemberChange, MemberChanged, NodeState, Notification,
    NotificationId, Project, ProjectChange, Purpose, Registered, Registration, RequestStatus, Role, Rotation,
    Session, SessionId, Spent, StoredKey, Swept, Tenant, TenantChange, UnknownName, User, UserId, Verdict,
};
pub use rpcgate_core::backend::counters::Restored;
pub use rpcgate_core::usage::{Block, Mark, Shipment};
pub use usage::{Removed, ShipError, UsageStore};

use connect::{DEADLINE, Database, SERVER_DEADLINE};
use database_location::DatabaseLocation;
use error::Leave;
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Time;
use rpcgate_core::config::Plans;
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use server::AdvisoryLock;
use std::sync::Arc;
use std::time::Duration;

/// The management database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    /// What each write leaves in the audit.
    entry: Option<Arc<Audit>>,
    /// The plans as they are configured: what operators set beats them.
    plans: Arc<Plans>,
}

impl Store {
    /// Opens the database at `url` (`database.url`): `sqlite://` and the name of a file, which is made if it is
    /// missing, or `postgres://…`, a database that is there. With `migrate` its schema is brought up to date.
    ///
    /// # Errors
    /// [`StoreError::Url`] for what is no such URL, [`StoreError::File`] if the file cannot be made or opened,
    /// [`StoreError::Server`] if the server cannot be used, [`StoreError::Outdated`] if the schema is not up to date and
    /// `migrate` is false, [`StoreError::Unavailable`].
    pub async fn open(url: &str, migrate: bool) -> Result<Self, StoreError> {
        let place = DatabaseLocation::parse(url)?;
        let deadline = if let DatabaseLocation::Server(_) = place { SERVER_DEADLINE } else { DEADLINE };
        Self::open_at(&place, migrate, deadline).await
    }

    async fn open_at(
        place: &DatabaseLocation,
        migrate: bool,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let turn = AdvisoryLock::Management;
        let database = Database::open::<migration::Management>(place, migrate, turn, deadline).await?;
        Ok(Store { database, entry: None, plans: Arc::default() })
    }

    /// This store, but each write by it leaves `entry` in the audit, in its own transaction: neither is there without
    /// the other. A write that takes an entry itself leaves that one instead.
    pub fn noting(&self, entry: Audit) -> Store {
        Store { entry: Some(Arc::new(entry)), ..self.clone() }
    }

    /// This store, with the configured `plans` in the place of the deployed ones: they say how many things a tenant may
    /// have.
    pub fn with_plans(self, plans: Plans) -> Store {
        Store { plans: Arc::new(plans), ..self }
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
        self.database.read(work).await
    }

    /// Does `work` in one transaction, within the deadline: all of it or nothing. The entry that this store carries goes
    /// with it.
    async fn write<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let work = async |transaction: &DatabaseTransaction| {
            let done = work(transaction).await?;
            if let Some(entry) = &self.entry {
                query::audit::append(transaction, entry).await?;
            }
            Ok(done)
        };
        self.transact(work).await
    }

    /// The same for a write that may find nothing to do: what it leaves in the audit is its own affair.
    async fn transact<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.transact(work).await
    }

    /// The same for removing what has expired, which one program at a time does: where another is at it, this one has
    /// to leave.
    async fn retire<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, Leave> {
        let work = async |transaction: &DatabaseTransaction| {
            if self.database.server().is_some() {
                // It is a write like any other, whose turn comes.
                AdvisoryLock::Management.wait(transaction).await?;
            }
            work(transaction).await
        };
        self.database.transact_alone(AdvisoryLock::Sweep, work).await?.ok_or(Leave::Another)
    }
}

/// A new identifier for a row: a UUID of version 7, so that rows are stored in the order they were made.
pub fn fresh_id(now: Time) -> u128 {
    RequestId::new(now).0
}

#[cfg(all(test, not(have_postgres)))]
mod tests {
    #[test]
    #[ignore = "needs postgresql (apt install postgresql)"]
    fn what_holds_on_sqlite_holds_on_postgresql() {
        panic!("needs postgresql (apt install postgresql)");
    }
}

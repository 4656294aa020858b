//! The databases. This is the only crate that contains SQL.
//!
//! [`Store`] holds the management data: tenants, users and their sessions, projects, keys, quotas, and the settings
//! with which operators override the configuration. Every write is one transaction. It also writes a row of the change
//! feed if gateways must learn of the change, and an audit entry if people may want to look it up later. The store
//! exposes the feed as core's [`ChangeFeed`](rpcgate_core::backend::changes::ChangeFeed). [`UsageStore`] holds usage.
//!
//! The methods that the gateway calls return a boxed future. The body of an async function is compiled in each crate
//! that awaits it, so `rpcgate-server` would compile these again, a third of its code, and optimise them like the path
//! of a call.

mod attempt_queue;
mod config_recorder;
mod connect;
mod database_location;
mod entity;
mod error;
mod interrupt;
mod migration;
mod notify;
mod query;
mod queue;
mod running_comparison;
mod server;
mod shares;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod transfer;
mod usage;

pub use config_recorder::{ConfigRecorder, ConfigRecording};
pub use connect::NEWER;
pub use database_location::{check_url, url_of};
pub use error::StoreError;
pub use query::FoundTenants;
pub use query::{
    ANSWER_KEPT, ATTEMPTS, AccessToken, AccessTokenId, Account, AccountFilter, AccountNotice,
    AttachmentBounds, AttachmentKind, Attempt, AttemptKind, AttemptTicket, Audit, AuditFilter, AuditSubject,
    ClaimedMail, ClaimedMails, ContractId, CustomPlan, CustomPlanChange, DeviceFamiliarity, Digest,
    EmailChange, EmailChangeOutcome, EmailChanged, Expected, FACTOR_TRIES, FactorUse, Factors, FailedStep,
    Figure, Figures, GatewayReport, Invitation, InvitationAcceptance, InvitationId, InviteOutcome,
    KeptByReset, Key, KeyName, KeyedRequest, LOCK, LimitRequest, LimitRequestId, LogInMethod, MAX_CONTRACTS,
    MAX_CUSTOM_PLANS, MAX_PASSKEYS, MAX_PENDING_LOG_INS, MailStored, MailedNotice, MemberChange,
    MemberChangeOutcome, NodeState, Notification, NotificationId, NotificationKind, NotificationPreference,
    OpenWork, OutgoingMail, PENDING_LOG_IN_LIFE, PasskeyId, Project, ProjectChange, ProjectCounts, Purpose,
    Registered, Registration, RequestStatus, Role, Rotation, Run, RunOutcome, Satisfaction, Session,
    SessionId, SessionLifetimes, Spent, StoredKey, StoredPasskey, StoredTotp, SupportTicket, SweepFailed,
    Swept, Tenant, TenantChange, TenantContract, TenantFilter, TenantPlan, Terms, TicketAttachment,
    TicketAttachmentId, TicketCategory, TicketComment, TicketCommentId, TicketFilter, TicketId,
    TicketLimitRequest, TicketStatus, UnknownName, User, UserId, Verdict, Version, Versioned,
};
pub use query::{AcceptedConfig, ConfigScope, ConfigVersion, ConfigVersionFilter};
pub use query::{
    AfterAttempt, ClaimCapacity, DueDelivery, EndedAttempt, EndpointTransitions, FailingEndpoint,
    ReleasedDelivery, TenantCapacity,
};
pub use query::{AttemptsOfHour, DeliveryFilter, EndpointHealth};
pub use query::{
    BillingParty, Checkout, CheckoutId, CheckoutOutcome, CheckoutSubject, CreditNote, CreditNoteNumber,
    Invoice, InvoiceAmounts, InvoiceEvent, InvoiceFilter, InvoiceLine, InvoiceNumber, InvoiceSeller,
    InvoiceStatus, LineKind, NewCreditNote, NewInvoice, NotInvoiceNumber, PaymentReport, PeriodClosed,
    PlanFee, SettledInvoice, TierChange, UnclosedTenant, UnmatchedPayment, WholeInvoice,
};
pub use query::{
    ChainEventFilter, ChainEventId, DELIVERIES_KEPT, Delivery, DeliveryAttempt, DeliveryId, DeliveryStatus,
    LogPage, LogPosition, LoggedEvent, MAX_REPLAYED, MAX_WAITING, SealedSecrets, SubscriptionId, SweptEvents,
    Webhook, WebhookChange, WebhookId, WebhookSubscription, WholeDelivery,
};
pub use query::{ChainUse, MethodTotal};
pub use query::{DatabaseCondition, files_of};
pub use query::{
    EXPLANATION_REQUEST_TTL, ExplainedCall, ExplainedTry, Explanation, ExplanationRequest, QuotaShown,
    RefusalShown, WindowUse,
};
pub use query::{Followed, MatchedEvent, MatchedSubscription, UnfinishedBlock, WatchLease, WatchOutcome};
pub use query::{KeyUse, KeysAsk, MethodUse, ProjectUnits, TenantSet, UsageOfAll, UsageOfAllAsk};
pub use query::{MAX_SCHEDULED_CHANGES, ScheduledChangeId, ScheduledPlanChange};
pub use query::{RunningConfig, ServiceSettings, TenantAgreements};
pub use query::{SecretColumn, StoredSecret};
pub use rpcgate_core::backend::counters::Restored;
pub use rpcgate_core::usage::{Block, Mark, Shipment};
pub use running_comparison::{ComparisonError, ReloadPlan, RunningComparison, compare_with_running};
pub use transfer::{MovedTable, TransferError, transfer};
pub use usage::{Removed, ShipError, UsageStore};

use attempt_queue::AttemptQueue;
use connect::{DEADLINE, Database, server_deadline};
use database_location::DatabaseLocation;
use error::RemovalStopped;
use rpcgate_config::Plans;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Time;
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use server::AdvisoryLock;
use std::sync::Arc;
use std::time::Duration;

/// The management database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    /// The attempts that wait to be counted. They belong to no run and have no condition: an attempt counts whatever
    /// becomes of its request.
    attempts: AttemptQueue,
    entry: Option<Arc<Audit>>,
    run: Option<Run>,
    expected: Option<Arc<Expected>>,
    /// The configured plans, which operators can override.
    plans: Arc<Plans>,
}

impl Store {
    /// Opens the database at `url` (`database.url`): `sqlite://` and a file name, which is created if it is missing, or
    /// `postgres://…` for an existing database. With `migrate`, brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Url`] if `url` is invalid, [`StoreError::File`] if the file cannot be created or opened,
    /// [`StoreError::Server`] if the server cannot be used, [`StoreError::Outdated`] if the schema is not up to date
    /// and `migrate` is false, [`StoreError::Unavailable`].
    pub fn open(url: &str, migrate: bool) -> BoxFuture<'_, Result<Self, StoreError>> {
        Box::pin(async move {
            let location = DatabaseLocation::parse(url)?;
            let deadline =
                if let DatabaseLocation::Server(_) = location { server_deadline() } else { DEADLINE };
            Self::open_at(&location, migrate, deadline).await
        })
    }

    async fn open_at(
        location: &DatabaseLocation,
        migrate: bool,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let lock = AdvisoryLock::Management;
        let database = Database::open::<migration::Management>(location, migrate, lock, deadline).await?;
        let attempts = AttemptQueue::new(database.clone());
        Ok(Store { database, attempts, entry: None, run: None, expected: None, plans: Arc::default() })
    }

    /// Returns this store, but each write adds `entry` to the audit in the same transaction. A write that takes its own
    /// entry adds that one instead.
    pub fn with_audit_entry(&self, entry: Audit) -> Store {
        Store { entry: Some(Arc::new(entry)), ..self.clone() }
    }

    /// Returns this store with the configured `plans`, which limit the objects of a tenant.
    pub fn with_plans(self, plans: Plans) -> Store {
        Store { plans: Arc::new(plans), ..self }
    }

    /// Closes all connections of this store and its clones, which checkpoints SQLite's log into the file.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.database.close().await;
        })
    }

    async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.database.read(work).await
    }

    /// Runs `work` in one transaction, within the deadline. The store's audit entry is added in the same transaction.
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

    /// Like [`write`](Self::write), for a write that may have nothing to do and therefore adds its own audit entry.
    async fn transact<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let work = async |transaction: &DatabaseTransaction| {
            if let Some(expected) = &self.expected {
                query::versions::check(transaction, expected).await?;
            }
            let done = work(transaction).await?;
            if let Some(run) = &self.run {
                query::idempotency::mark(transaction, run).await?;
            }
            Ok(done)
        };
        self.database.transact(work).await
    }

    /// Runs `work`, which removes expired rows, in one transaction. While another program does so, this returns
    /// [`RemovalStopped::LockHeld`].
    async fn remove_expired<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, RemovalStopped> {
        let work = async |transaction: &DatabaseTransaction| {
            if self.database.server().is_some() {
                // Removals take the lock of writes too.
                AdvisoryLock::Management.wait(transaction).await?;
            }
            work(transaction).await
        };
        self.database.transact_exclusive(AdvisoryLock::Sweep, work).await?.ok_or(RemovalStopped::LockHeld)
    }
}

/// Returns a new identifier for a row: a version 7 UUID, so that rows are stored in order of creation.
pub fn fresh_id(now: Time) -> u128 {
    RequestId::new(now).0
}

#[cfg(all(test, not(have_postgres)))]
mod tests {
    #[test]
    #[ignore = "needs postgresql (apt install postgresql)"]
    fn every_test_on_sqlite_also_passes_on_postgresql() {
        panic!("needs postgresql (apt install postgresql)");
    }
}

//! Removes expired rows.

use super::deleted_tenants::RemovalStep;
use super::removal::{RemovalBatch, remove_batch, remove_batch_of_pairs};
use super::{
    access_tokens, attempts, checkouts, config_versions, contracts, custom_plans, deleted_tenants,
    explanations, invitations, keys, known_devices, outgoing_mails, projects, registrations,
    ticket_attachments,
};
use crate::entity::checkouts as stored_checkouts;
use crate::entity::invitations as invited;
use crate::entity::{
    access_tokens as stored_tokens, attempts as tries, audit, changes, config_versions as stored_versions,
    confirmations, contracts as stored_contracts, custom_plans as stored_plans, explanation_requests,
    idempotency, keys as stored_keys, known_devices as devices, limit_requests, mail_tokens,
    mailed_notifications, notices, notification_reads, pending_log_ins, projects as stored_projects,
    refreshes, sessions, solved, ticket_attachments as attached, tier_changes,
};
use crate::error::RemovalStopped;
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::fmt;
use std::time::Duration;

const STEP: u64 = 500;

/// The number of rows of one kind that a sweep skips, because they cannot be removed, before it gives up the kind.
const MAX_STUCK: u64 = 100;

/// The time that audit entries and read marks are kept, the same as for usage.
const AUDIT_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// The time that revoked or expired keys and deleted projects are kept, so that people can look up recent ones.
const ENDED_KEPT: Duration = Duration::from_secs(90 * 86_400);

/// The numbers of removed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Unused tokens that confirm an address.
    pub confirmations: u64,
    /// Unused tokens that set a password or change an address.
    pub mail_tokens: u64,
    /// Invitations.
    pub invitations: u64,
    /// Log-ins without a second factor.
    pub pending_log_ins: u64,
    /// Sessions.
    pub sessions: u64,
    /// Refresh tokens of sessions that continue.
    pub refreshes: u64,
    /// Attempts that counted towards a lock.
    pub attempts: u64,
    /// Solved challenges.
    pub solved: u64,
    /// Unconfirmed users, with their tenants.
    pub accounts: u64,
    /// Audit entries.
    pub audit: u64,
    /// Changes that every gateway has read.
    pub changes: u64,
    /// Marks of read notifications.
    pub reads: u64,
    /// Revoked or expired keys.
    pub keys: u64,
    /// Deleted projects.
    pub projects: u64,
    /// Deleted tenants, except for their invoices.
    pub tenants: u64,
    /// Decided requests for another plan.
    pub limit_requests: u64,
    /// Files with an incomplete upload.
    pub ticket_attachments: u64,
    /// Ended contracts.
    pub contracts: u64,
    /// Deleted custom plans.
    pub custom_plans: u64,
    /// Expired personal access tokens.
    pub access_tokens: u64,
    /// Answers to requests with an idempotency key.
    pub answers: u64,
    /// Old checkouts.
    pub checkouts: u64,
    /// Plan changes that are too old to be billed.
    pub tier_changes: u64,
    /// Requests for explanations.
    pub explanations: u64,
    /// Devices without a recent log-in.
    pub devices: u64,
    /// Notifications of the management side.
    pub notices: u64,
    /// Marks of mailed notifications.
    pub mailed_notifications: u64,
    /// Versions of configurations.
    pub config_versions: u64,
}

/// An unfinished part of a sweep.
#[derive(Debug)]
pub struct FailedStep {
    /// The rows that it removes, as named in [`Swept`].
    pub step: &'static str,
    /// The error of the last row that could not be removed.
    pub error: StoreError,
}

/// The error for the unfinished parts of a sweep; all others were finished.
#[derive(Debug)]
pub struct SweepFailed {
    /// The unfinished parts.
    pub steps: Vec<FailedStep>,
}

impl fmt::Display for SweepFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("old rows could not be removed:")?;
        self.steps.iter().try_for_each(|FailedStep { step, error }| write!(f, " {step}: {error};"))
    }
}

impl std::error::Error for SweepFailed {}

type Removal<'t> = BoxFuture<'t, Result<u64, StoreError>>;

struct Sweep<'s> {
    store: &'s Store,
    failed: Vec<FailedStep>,
    /// True if another program sweeps and does the rest.
    is_left: bool,
}

impl Sweep<'_> {
    /// Removes rows by `remove`, batch by batch, until a batch is not full. If a batch fails, smaller ones find the row
    /// that is in the way and skip it, so that one row delays no other of any kind.
    async fn step(
        &mut self,
        step: &'static str,
        removed: &mut u64,
        remove: impl for<'t> Fn(&'t DatabaseTransaction, RemovalBatch) -> Removal<'t> + Send + Sync,
    ) {
        let mut batch = RemovalBatch::any(STEP);
        let mut last_error = None;
        while !self.is_left {
            let work = async |transaction: &DatabaseTransaction| remove(transaction, batch).await;
            match self.store.remove_expired(work).await {
                Ok(rows) => {
                    *removed += rows;
                    if rows < batch.limit {
                        break;
                    }
                    batch.limit = STEP.min(batch.limit * 2);
                }
                Err(RemovalStopped::LockHeld) => self.is_left = true,
                Err(RemovalStopped::Failed(error)) => {
                    let is_one_row = batch.is_ordered && batch.limit == 1;
                    let is_hopeless = matches!(error, StoreError::Unavailable(_)) || batch.skip >= MAX_STUCK;
                    last_error = Some(error);
                    if is_hopeless {
                        break;
                    }
                    batch = if is_one_row {
                        RemovalBatch { skip: batch.skip + 1, limit: STEP, is_ordered: true }
                    } else {
                        RemovalBatch { limit: (batch.limit / 2).max(1), is_ordered: true, ..batch }
                    };
                }
            }
        }
        self.failed.extend(last_error.map(|error| FailedStep { step, error }));
    }

    async fn table<E: EntityTrait>(
        &mut self,
        step: &'static str,
        removed: &mut u64,
        id: E::Column,
        old: Condition,
    ) {
        self.step(step, removed, |transaction, batch| {
            Box::pin(remove_batch::<E>(transaction, id, old.clone(), batch))
        })
        .await;
    }

    /// Removes the rest of deleted tenants, and counts the finished ones. Skips a tenant that cannot be removed, as
    /// other steps skip rows.
    async fn deleted_tenants(&mut self, removed: &mut u64) {
        let mut batch = RemovalBatch { skip: 0, limit: STEP, is_ordered: true };
        let mut last_error = None;
        while !self.is_left {
            let work = async |transaction: &DatabaseTransaction| {
                deleted_tenants::remove_some(transaction, batch).await
            };
            match self.store.remove_expired(work).await {
                Ok(RemovalStep::Some) => {}
                Ok(RemovalStep::Last) => *removed += 1,
                Ok(RemovalStep::Nothing) => break,
                Err(RemovalStopped::LockHeld) => self.is_left = true,
                Err(RemovalStopped::Failed(error)) => {
                    let is_hopeless = matches!(error, StoreError::Unavailable(_)) || batch.skip >= MAX_STUCK;
                    last_error = Some(error);
                    if is_hopeless {
                        break;
                    }
                    batch.skip += 1;
                }
            }
        }
        self.failed.extend(last_error.map(|error| FailedStep { step: "tenants", error }));
    }
}

impl Store {
    /// Removes expired rows: sessions and tokens, attempts that no longer lock anything, used solutions, accounts not
    /// confirmed within 7 days, the rest of deleted tenants, audit entries and read marks after 400 days, changes and
    /// incomplete uploads after an hour. Uses small transactions, so that other writes hardly wait; after an error, the
    /// finished ones stay.
    ///
    /// Each kind of rows is removed independently: a row that cannot be removed blocks no other. Any program may call
    /// this at any time; it stops if another program does the work.
    ///
    /// # Errors
    /// [`SweepFailed`] lists the kinds of rows that could not all be removed.
    pub fn sweep(&self, now: Time) -> BoxFuture<'_, Result<Swept, SweepFailed>> {
        Box::pin(self.sweep_all(now))
    }

    async fn sweep_all(&self, now: Time) -> Result<Swept, SweepFailed> {
        let mut swept = Swept::default();
        let mut sweep = Sweep { store: self, failed: Vec::new(), is_left: false };
        sweep_log_ins(&mut sweep, &mut swept, now).await;
        sweep_accounts(&mut sweep, &mut swept, now).await;
        match self.old_changes(now).await {
            Ok(old) => {
                let removed = &mut swept.changes;
                sweep.table::<changes::Entity>("changes", removed, changes::Column::Number, old).await;
            }
            Err(error) => sweep.failed.push(FailedStep { step: "changes", error }),
        }
        sweep_records(&mut sweep, &mut swept, now).await;
        sweep_ended(&mut sweep, &mut swept, now).await;
        if sweep.failed.is_empty() {
            return Ok(swept);
        }
        Err(SweepFailed { steps: sweep.failed })
    }
}

async fn sweep_log_ins(sweep: &mut Sweep<'_>, swept: &mut Swept, now: Time) {
    let unused = Condition::all().add(confirmations::Column::ExpiresAt.lte(now));
    let user = confirmations::Column::UserId;
    sweep.table::<confirmations::Entity>("confirmations", &mut swept.confirmations, user, unused).await;
    let unread = Condition::all().add(mail_tokens::Column::ExpiresAt.lte(now));
    let hash = mail_tokens::Column::Hash;
    sweep.table::<mail_tokens::Entity>("mail_tokens", &mut swept.mail_tokens, hash, unread).await;
    let gone = invitations::is_over(now);
    sweep.table::<invited::Entity>("invitations", &mut swept.invitations, invited::Column::Id, gone).await;
    let waited = Condition::all().add(pending_log_ins::Column::ExpiresAt.lte(now));
    let pending = &mut swept.pending_log_ins;
    let hash = pending_log_ins::Column::Hash;
    sweep.table::<pending_log_ins::Entity>("pending_log_ins", pending, hash, waited).await;
    let ended = Condition::all().add(sessions::Column::ExpiresAt.lte(now));
    sweep.table::<sessions::Entity>("sessions", &mut swept.sessions, sessions::Column::Id, ended).await;
    let expired = Condition::all().add(refreshes::Column::ExpiresAt.lte(now));
    sweep
        .table::<refreshes::Entity>("refreshes", &mut swept.refreshes, refreshes::Column::Hash, expired)
        .await;
    let old = attempts::is_old(now);
    sweep.table::<tries::Entity>("attempts", &mut swept.attempts, tries::Column::Id, old).await;
    let stale = registrations::is_stale(now);
    sweep.table::<solved::Entity>("solved", &mut swept.solved, solved::Column::Digest, stale).await;
    let tokens = &mut swept.access_tokens;
    let old = access_tokens::is_old(now);
    sweep.table::<stored_tokens::Entity>("access_tokens", tokens, stored_tokens::Column::Id, old).await;
    let forgotten = known_devices::is_forgotten(now);
    sweep.table::<devices::Entity>("devices", &mut swept.devices, devices::Column::Digest, forgotten).await;
}

async fn sweep_accounts(sweep: &mut Sweep<'_>, swept: &mut Swept, now: Time) {
    sweep
        .step("accounts", &mut swept.accounts, |transaction, batch| {
            Box::pin(registrations::remove_unconfirmed(transaction, now, batch))
        })
        .await;
}

async fn sweep_records(sweep: &mut Sweep<'_>, swept: &mut Swept, now: Time) {
    let then = now.minus(AUDIT_KEPT);
    let past = Condition::all().add(audit::Column::At.lte(then));
    sweep.table::<audit::Entity>("audit", &mut swept.audit, audit::Column::Number, past).await;
    let old_reads = Condition::all().add(notification_reads::Column::ReadAt.lt(then));
    sweep
        .step("reads", &mut swept.reads, |transaction, batch| {
            use notification_reads::Column::{Notification, UserId};
            let names = [UserId, Notification];
            let old = old_reads.clone();
            Box::pin(remove_batch_of_pairs::<notification_reads::Entity>(transaction, names, old, batch))
        })
        .await;
    let decided = Condition::all().add(limit_requests::Column::ReviewedAt.lte(then));
    let requests = &mut swept.limit_requests;
    let id = limit_requests::Column::Id;
    sweep.table::<limit_requests::Entity>("limit_requests", requests, id, decided).await;
    let uploads = &mut swept.ticket_attachments;
    let broken_off = ticket_attachments::is_broken_off(now);
    sweep.table::<attached::Entity>("ticket_attachments", uploads, attached::Column::Id, broken_off).await;
    let stored_answers = Condition::all().add(idempotency::Column::ExpiresAt.lte(now));
    let answers = &mut swept.answers;
    let run = idempotency::Column::Run;
    sweep.table::<idempotency::Entity>("answers", answers, run, stored_answers).await;
    let begun = &mut swept.checkouts;
    let old = checkouts::are_old(now);
    sweep.table::<stored_checkouts::Entity>("checkouts", begun, stored_checkouts::Column::Id, old).await;
    let old = Condition::all().add(tier_changes::Column::At.lt(then));
    let changed = &mut swept.tier_changes;
    let number = tier_changes::Column::Number;
    sweep.table::<tier_changes::Entity>("tier_changes", changed, number, old).await;
    let old = Condition::all().add(notices::Column::At.lte(then));
    sweep.table::<notices::Entity>("notices", &mut swept.notices, notices::Column::Id, old).await;
    let mailed = &mut swept.mailed_notifications;
    let id = mailed_notifications::Column::Notification;
    let long_ago = outgoing_mails::is_mailed_long_ago(now);
    sweep.table::<mailed_notifications::Entity>("mailed_notifications", mailed, id, long_ago).await;
    let requests = &mut swept.explanations;
    let id = explanation_requests::Column::Id;
    let old = explanations::are_over(now);
    sweep.table::<explanation_requests::Entity>("explanations", requests, id, old).await;
    let versions = &mut swept.config_versions;
    let number = stored_versions::Column::Number;
    let old = config_versions::are_old(now);
    sweep.table::<stored_versions::Entity>("config_versions", versions, number, old).await;
}

async fn sweep_ended(sweep: &mut Sweep<'_>, swept: &mut Swept, now: Time) {
    let deleted = &mut swept.custom_plans;
    let old = custom_plans::are_old(now);
    sweep.table::<stored_plans::Entity>("custom_plans", deleted, stored_plans::Column::Id, old).await;
    let ended = &mut swept.contracts;
    let old = contracts::are_old(now);
    sweep.table::<stored_contracts::Entity>("contracts", ended, stored_contracts::Column::Id, old).await;
    let then = now.minus(ENDED_KEPT);
    let removed = &mut swept.keys;
    let ended = keys::ended(then);
    sweep.table::<stored_keys::Entity>("keys", removed, stored_keys::Column::Id, ended).await;
    sweep
        .step("projects", &mut swept.projects, |transaction, batch| {
            Box::pin(remove_deleted_projects(transaction, then, batch))
        })
        .await;
    sweep.deleted_tenants(&mut swept.tenants).await;
}

async fn remove_deleted_projects(
    transaction: &DatabaseTransaction,
    then: Time,
    batch: RemovalBatch,
) -> Result<u64, StoreError> {
    use stored_projects::{Column, Entity};
    let rows = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::DeletedAt.lte(then))
        .order_by_asc(Column::Id)
        .offset(batch.skip)
        .limit(batch.limit);
    projects::remove(transaction, rows.into_tuple().all(transaction).await?).await
}

#[cfg(test)]
#[cfg(have_postgres)]
mod tests {
    use super::*;
    use crate::server::AdvisoryLock;
    use crate::testing::TestDatabase;

    const ENOUGH: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_sweep_is_left_to_another_sweeping_program_and_writes_continue() {
        let site = TestDatabase::server();
        let one = site.store_within(ENOUGH).await.unwrap();
        let other = site.store_within(ENOUGH).await.unwrap();
        for second in 0..3 {
            one.switch_chain("toy", true, Time::from_secs(second)).await.unwrap();
        }
        let later = Time::from_secs(9 * 3_600);
        let swept = one.database.transact_exclusive(AdvisoryLock::Sweep, async |_| {
            let swept = other.sweep(later).await.unwrap();
            other.switch_chain("toy", false, Time::from_secs(3)).await?;
            Ok::<_, StoreError>(swept)
        });
        assert_eq!(swept.await.unwrap(), Some(Swept::default()));
        assert_eq!(other.sweep(later).await.unwrap().changes, 3, "all but the newest");
    }
}

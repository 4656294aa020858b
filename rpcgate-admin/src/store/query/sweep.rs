//! Removes expired rows.

use super::deleted_tenants::RemovalStep;
use super::removal::{remove, remove_pairs};
use super::value::moment;
use super::{
    access_tokens, attempts, checkouts, config_versions, contracts, custom_plans, deleted_tenants,
    explanations, invitations, keys, known_devices, outgoing_mails, projects, registrations,
    ticket_attachments,
};
use crate::store::entity::checkouts as begun;
use crate::store::entity::invitations as invited;
use crate::store::entity::{
    access_tokens as stored_tokens, attempts as tries, audit, changes, config_versions as stored_versions,
    confirmations, contracts as stored_contracts, custom_plans as stored_plans, explanation_requests,
    idempotency, keys as stored_keys, known_devices as devices, limit_requests, mail_tokens,
    mailed_notifications, notices, notification_reads, pending_log_ins, projects as stored_projects,
    refreshes, sessions, solved, ticket_attachments as attached, tier_changes,
};
use crate::store::error::RemovalStopped;
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use std::time::Duration;

/// Rows removed per transaction.
const STEP: u64 = 500;

/// How long audit entries and read marks are kept: as long as the usage of the same time.
const AUDIT_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// How long revoked or expired keys and deleted projects are kept, so that people can look up recent ones.
const ENDED_KEPT: Duration = Duration::from_secs(90 * 86_400);

/// The numbers of removed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Tokens that would have confirmed an address.
    pub confirmations: u64,
    /// Tokens that would have set a password or changed an address.
    pub mail_tokens: u64,
    /// Invitations.
    pub invitations: u64,
    /// Log-ins whose second factor was not given.
    pub pending_log_ins: u64,
    /// Sessions.
    pub sessions: u64,
    /// Refresh tokens of sessions that continue.
    pub refreshes: u64,
    /// Attempts that counted for a lock.
    pub attempts: u64,
    /// Solved challenges.
    pub solved: u64,
    /// Users that were not confirmed, with their tenants.
    pub accounts: u64,
    /// Audit entries.
    pub audit: u64,
    /// Changes that every gateway has read.
    pub changes: u64,
    /// Marks of notifications that users have read.
    pub reads: u64,
    /// Keys that were revoked or had expired.
    pub keys: u64,
    /// Projects that were deleted.
    pub projects: u64,
    /// Tenants that were deleted, of which nothing is left but invoices.
    pub tenants: u64,
    /// Requests for another plan that were decided.
    pub limit_requests: u64,
    /// Files whose upload broke off.
    pub ticket_attachments: u64,
    /// Contracts that ended.
    pub contracts: u64,
    /// Plans of operators' own that were deleted.
    pub custom_plans: u64,
    /// Personal access tokens that expired.
    pub access_tokens: u64,
    /// Answers to requests with an idempotency key.
    pub answers: u64,
    /// Payments that were begun long ago.
    pub checkouts: u64,
    /// Changes of plans that are too old to be billed.
    pub tier_changes: u64,
    /// Explanations that were asked for.
    pub explanations: u64,
    /// Devices from which nobody has logged in for long.
    pub devices: u64,
    /// Notifications that the management side has raised.
    pub notices: u64,
    /// Marks of notifications that were mailed.
    pub mailed_notifications: u64,
    /// Versions of configurations.
    pub config_versions: u64,
}

impl Store {
    /// Removes expired rows: sessions and tokens, attempts that no longer lock anything, used solutions, accounts
    /// not confirmed within 7 days, what is left of deleted tenants, audit entries and read marks after 400 days, changes and broken-off uploads after an hour. The work is
    /// done in small transactions, so that other writes hardly wait; after an error, the finished ones stay.
    ///
    /// Any program may call this at any time; while another program does the work, this one stops.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn sweep(&self, now: Time) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        RemovalStopped::failed(self.sweep_all(&mut swept, now).await)?;
        Ok(swept)
    }

    async fn sweep_all(&self, swept: &mut Swept, now: Time) -> Result<(), RemovalStopped> {
        let over = |expires_at: &dyn Fn(i64) -> Expr| Condition::all().add(expires_at(moment(now)));
        let ended = over(&|now| sessions::Column::ExpiresAt.lte(now));
        let unused = over(&|now| confirmations::Column::ExpiresAt.lte(now));
        let unread = over(&|now| mail_tokens::Column::ExpiresAt.lte(now));
        let expired = over(&|now| refreshes::Column::ExpiresAt.lte(now));
        let kept = i64::try_from(AUDIT_KEPT.as_micros()).unwrap_or(i64::MAX);
        let past = over(&|now| audit::Column::At.lte(now - kept));
        let old_reads = over(&|now| notification_reads::Column::ReadAt.lt(now.saturating_sub(kept)));
        let old_changes = self.old_changes(now).await?;
        let gone = invitations::is_over(now);
        self.remove_all::<confirmations::Entity>(
            &mut swept.confirmations,
            confirmations::Column::UserId,
            unused,
        )
        .await?;
        self.remove_all::<mail_tokens::Entity>(&mut swept.mail_tokens, mail_tokens::Column::Hash, unread)
            .await?;
        self.remove_all::<invited::Entity>(&mut swept.invitations, invited::Column::Id, gone).await?;
        let waited = over(&|now| pending_log_ins::Column::ExpiresAt.lte(now));
        let pending = &mut swept.pending_log_ins;
        self.remove_all::<pending_log_ins::Entity>(pending, pending_log_ins::Column::Hash, waited).await?;
        self.remove_all::<sessions::Entity>(&mut swept.sessions, sessions::Column::Id, ended).await?;
        self.remove_all::<refreshes::Entity>(&mut swept.refreshes, refreshes::Column::Hash, expired).await?;
        self.remove_all::<tries::Entity>(&mut swept.attempts, tries::Column::Id, attempts::is_old(now))
            .await?;
        let stale = registrations::is_stale(now);
        self.remove_all::<solved::Entity>(&mut swept.solved, solved::Column::Digest, stale).await?;
        self.remove_unconfirmed(&mut swept.accounts, now).await?;
        self.remove_all::<audit::Entity>(&mut swept.audit, audit::Column::Number, past).await?;
        self.remove_all::<changes::Entity>(&mut swept.changes, changes::Column::Number, old_changes).await?;
        self.remove_reads(&mut swept.reads, old_reads).await?;
        let decided = over(&|now| limit_requests::Column::ReviewedAt.lte(now.saturating_sub(kept)));
        let requests = &mut swept.limit_requests;
        self.remove_all::<limit_requests::Entity>(requests, limit_requests::Column::Id, decided).await?;
        let broken_off = ticket_attachments::is_broken_off(now);
        self.remove_all::<attached::Entity>(&mut swept.ticket_attachments, attached::Column::Id, broken_off)
            .await?;
        let (deleted, old) = (&mut swept.custom_plans, custom_plans::are_old(now));
        self.remove_all::<stored_plans::Entity>(deleted, stored_plans::Column::Id, old).await?;
        let (ended, old) = (&mut swept.contracts, contracts::are_old(now));
        self.remove_all::<stored_contracts::Entity>(ended, stored_contracts::Column::Id, old).await?;
        let (tokens, old) = (&mut swept.access_tokens, access_tokens::is_old(now));
        self.remove_all::<stored_tokens::Entity>(tokens, stored_tokens::Column::Id, old).await?;
        let kept_answers = over(&|now| idempotency::Column::ExpiresAt.lte(now));
        let answers = &mut swept.answers;
        self.remove_all::<idempotency::Entity>(answers, idempotency::Column::Run, kept_answers).await?;
        let old = checkouts::are_old(now);
        self.remove_all::<begun::Entity>(&mut swept.checkouts, begun::Column::Id, old).await?;
        let old = over(&|now| tier_changes::Column::At.lt(now.saturating_sub(kept)));
        let changes = &mut swept.tier_changes;
        self.remove_all::<tier_changes::Entity>(changes, tier_changes::Column::Number, old).await?;
        let old_notices = over(&|now| notices::Column::At.lte(now.saturating_sub(kept)));
        self.remove_all::<notices::Entity>(&mut swept.notices, notices::Column::Id, old_notices).await?;
        let (mailed, id) = (&mut swept.mailed_notifications, mailed_notifications::Column::Notification);
        let long_ago = outgoing_mails::is_mailed_long_ago(now);
        self.remove_all::<mailed_notifications::Entity>(mailed, id, long_ago).await?;
        let (asked, old) = (&mut swept.explanations, explanations::are_over(now));
        self.remove_all::<explanation_requests::Entity>(asked, explanation_requests::Column::Id, old).await?;
        let (versions, number) = (&mut swept.config_versions, stored_versions::Column::Number);
        let old = config_versions::are_old(now);
        self.remove_all::<stored_versions::Entity>(versions, number, old).await?;
        let forgotten = known_devices::is_forgotten(now);
        self.remove_all::<devices::Entity>(&mut swept.devices, devices::Column::Digest, forgotten).await?;
        let then = Time::from_micros(now.micros().saturating_sub(ENDED_KEPT.as_micros() as u64));
        let ended = keys::ended(then);
        self.remove_all::<stored_keys::Entity>(&mut swept.keys, stored_keys::Column::Id, ended).await?;
        self.remove_deleted_projects(&mut swept.projects, then).await?;
        self.remove_deleted_tenants(&mut swept.tenants).await
    }

    /// Removes all `old` rows.
    async fn remove_all<E: EntityTrait>(
        &self,
        removed: &mut u64,
        id: E::Column,
        old: Condition,
    ) -> Result<(), RemovalStopped> {
        loop {
            let step = self
                .remove_expired(async |transaction| remove::<E>(transaction, id, old.clone(), STEP).await)
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }

    async fn remove_deleted_projects(&self, removed: &mut u64, then: Time) -> Result<(), RemovalStopped> {
        use stored_projects::{Column, Entity};
        loop {
            let step = self
                .remove_expired(async |transaction| {
                    let old = Column::DeletedAt.lte(moment(then));
                    let rows = Entity::find().select_only().column(Column::Id).filter(old).limit(STEP);
                    projects::remove(transaction, rows.into_tuple().all(transaction).await?).await
                })
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }

    async fn remove_deleted_tenants(&self, removed: &mut u64) -> Result<(), RemovalStopped> {
        loop {
            let step = self
                .remove_expired(async |transaction| deleted_tenants::remove_some(transaction, STEP).await)
                .await?;
            match step {
                RemovalStep::Some => {}
                RemovalStep::Last => *removed += 1,
                RemovalStep::Nothing => return Ok(()),
            }
        }
    }

    async fn remove_unconfirmed(&self, removed: &mut u64, now: Time) -> Result<(), RemovalStopped> {
        loop {
            let step = self
                .remove_expired(async |transaction| {
                    registrations::remove_unconfirmed(transaction, now, STEP).await
                })
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }

    async fn remove_reads(&self, removed: &mut u64, old: Condition) -> Result<(), RemovalStopped> {
        use notification_reads::Column::{Notification, UserId};
        loop {
            let step = self
                .remove_expired(async |transaction| {
                    let names = [UserId, Notification];
                    remove_pairs::<notification_reads::Entity>(transaction, names, old.clone(), STEP).await
                })
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
mod tests {
    use super::*;
    use crate::store::server::AdvisoryLock;
    use crate::store::site::Site;

    /// Enough for a server that answers, on a loaded machine too.
    const ENOUGH: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_sweep_is_left_to_another_program_that_sweeps_while_writes_go_on() {
        let site = Site::server();
        let (one, other) =
            (site.store_within(ENOUGH).await.unwrap(), site.store_within(ENOUGH).await.unwrap());
        for second in 0..3 {
            one.switch_chain("toy", true, Time::from_secs(second)).await.unwrap();
        }
        let later = Time::from_secs(9 * 3_600);
        let swept = one.database.transact_exclusive(AdvisoryLock::Sweep, async |_| {
            let swept = other.sweep(later).await?;
            other.switch_chain("toy", false, Time::from_secs(3)).await?;
            Ok::<_, StoreError>(swept)
        });
        assert_eq!(swept.await.unwrap(), Some(Swept::default()));
        assert_eq!(other.sweep(later).await.unwrap().changes, 3, "all but the newest");
    }
}

//! Removing what has expired.

use super::removal::{remove, remove_pairs};
use super::value::moment;
use super::{attempts, invitations, keys, projects, registrations};
use crate::store::entity::invitations as invited;
use crate::store::entity::{
    attempts as tries, audit, changes, confirmations, keys as stored_keys, limit_requests, mail_tokens,
    notification_reads, projects as stored_projects, refreshes, sessions, solved,
};
use crate::store::error::Leave;
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use std::time::Duration;

/// Rows of one step.
const STEP: u64 = 500;

/// How long an entry of the audit is kept, and a note of who has read what: as long as the usage of the same time.
const AUDIT: Duration = Duration::from_secs(400 * 86_400);

/// How long a key is kept that was revoked or has ended, and a project that was deleted, so that people find what they
/// have just lost.
const ENDED: Duration = Duration::from_secs(90 * 86_400);

/// What was removed because its time was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Tokens that would have confirmed an address.
    pub confirmations: u64,
    /// Tokens that would have set a password or changed an address.
    pub mail_tokens: u64,
    /// Invitations.
    pub invitations: u64,
    /// Sessions.
    pub sessions: u64,
    /// Refresh tokens of sessions that live on.
    pub refreshes: u64,
    /// Attempts to log in.
    pub attempts: u64,
    /// Solved challenges.
    pub solved: u64,
    /// Users that were not confirmed, with their tenants.
    pub accounts: u64,
    /// Entries of the audit.
    pub audit: u64,
    /// Changes that every gateway has heard of.
    pub changes: u64,
    /// Notes of who has read what.
    pub reads: u64,
    /// Keys that were revoked or had ended.
    pub keys: u64,
    /// Projects that were deleted.
    pub projects: u64,
    /// Requests for another plan that were decided.
    pub limit_requests: u64,
}

impl Store {
    /// Removes what has expired: sessions and tokens, what was counted for a lock that is over, solutions that nobody
    /// can use again, accounts that were not confirmed within 7 days, entries of the audit and notes of who has read
    /// what after 400 days, changes after an hour. It goes in small steps, each a transaction of its own, so that other
    /// writes hardly wait; what is done when it fails stays done.
    ///
    /// Any program may do this at any time: where another is at it, this one leaves it to that.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn sweep(&self, now: Time) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        Leave::failed(self.go_through(&mut swept, now).await)?;
        Ok(swept)
    }

    async fn go_through(&self, swept: &mut Swept, now: Time) -> Result<(), Leave> {
        let over = |expires_at: &dyn Fn(i64) -> Expr| Condition::all().add(expires_at(moment(now)));
        let ended = over(&|now| sessions::Column::ExpiresAt.lte(now));
        let unused = over(&|now| confirmations::Column::ExpiresAt.lte(now));
        let unread = over(&|now| mail_tokens::Column::ExpiresAt.lte(now));
        let expired = over(&|now| refreshes::Column::ExpiresAt.lte(now));
        let kept = i64::try_from(AUDIT.as_micros()).unwrap_or(i64::MAX);
        let past = over(&|now| audit::Column::At.lte(now - kept));
        let forgotten = over(&|now| notification_reads::Column::ReadAt.lt(now.saturating_sub(kept)));
        let told = self.old_changes(now).await?;
        let gone = invitations::is_over(now);
        self.all::<confirmations::Entity>(&mut swept.confirmations, confirmations::Column::UserId, unused)
            .await?;
        self.all::<mail_tokens::Entity>(&mut swept.mail_tokens, mail_tokens::Column::Hash, unread).await?;
        self.all::<invited::Entity>(&mut swept.invitations, invited::Column::Id, gone).await?;
        self.all::<sessions::Entity>(&mut swept.sessions, sessions::Column::Id, ended).await?;
        self.all::<refreshes::Entity>(&mut swept.refreshes, refreshes::Column::Hash, expired).await?;
        self.all::<tries::Entity>(&mut swept.attempts, tries::Column::Id, attempts::is_old(now)).await?;
        let stale = registrations::is_stale(now);
        self.all::<solved::Entity>(&mut swept.solved, solved::Column::Digest, stale).await?;
        self.unconfirmed(&mut swept.accounts, now).await?;
        self.all::<audit::Entity>(&mut swept.audit, audit::Column::Number, past).await?;
        self.all::<changes::Entity>(&mut swept.changes, changes::Column::Number, told).await?;
        self.forgotten(&mut swept.reads, forgotten).await?;
        let decided = over(&|now| limit_requests::Column::ReviewedAt.lte(now.saturating_sub(kept)));
        let requests = &mut swept.limit_requests;
        self.all::<limit_requests::Entity>(requests, limit_requests::Column::Id, decided).await?;
        let then = Time::from_micros(now.micros().saturating_sub(ENDED.as_micros() as u64));
        let ended = keys::ended(then);
        self.all::<stored_keys::Entity>(&mut swept.keys, stored_keys::Column::Id, ended).await?;
        self.deleted_projects(&mut swept.projects, then).await
    }

    /// Removes all rows that are `old`.
    async fn all<E: EntityTrait>(
        &self,
        removed: &mut u64,
        id: E::Column,
        old: Condition,
    ) -> Result<(), Leave> {
        loop {
            let step = self
                .retire(async |transaction| remove::<E>(transaction, id, old.clone(), STEP).await)
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }

    async fn deleted_projects(&self, removed: &mut u64, then: Time) -> Result<(), Leave> {
        use stored_projects::{Column, Entity};
        loop {
            let step = self
                .retire(async |transaction| {
                    let old = Column::DeletedAt.lte(moment(then));
                    let some = Entity::find().select_only().column(Column::Id).filter(old).limit(STEP);
                    projects::remove(transaction, some.into_tuple().all(transaction).await?).await
                })
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }

    async fn unconfirmed(&self, removed: &mut u64, now: Time) -> Result<(), Leave> {
        loop {
            let step = self
                .retire(async |transaction| registrations::remove_unconfirmed(transaction, now, STEP).await)
                .await?;
            *removed += step;
            if step < STEP {
                return Ok(());
            }
        }
    }

    async fn forgotten(&self, removed: &mut u64, old: Condition) -> Result<(), Leave> {
        use notification_reads::Column::{Notification, UserId};
        loop {
            let step = self
                .retire(async |transaction| {
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
    async fn where_another_sweeps_this_one_leaves_it_to_that_and_writes_go_on() {
        let site = Site::server();
        let (one, other) =
            (site.store_within(ENOUGH).await.unwrap(), site.store_within(ENOUGH).await.unwrap());
        for second in 0..3 {
            one.switch_chain("toy", true, Time::from_secs(second)).await.unwrap();
        }
        let later = Time::from_secs(9 * 3_600);
        let swept = one.database.transact_alone(AdvisoryLock::Sweep, async |_| {
            let swept = other.sweep(later).await?;
            other.switch_chain("toy", false, Time::from_secs(3)).await?;
            Ok::<_, StoreError>(swept)
        });
        assert_eq!(swept.await.unwrap(), Some(Swept::default()));
        assert_eq!(other.sweep(later).await.unwrap().changes, 3, "all but the newest");
    }
}

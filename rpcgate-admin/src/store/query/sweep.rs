//! Removing what has expired.

use super::value::moment;
use super::{attempts, invitations, registrations};
use crate::store::entity::invitations as invited;
use crate::store::entity::{attempts as tries, audit, changes, confirmations, refreshes, sessions, solved};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, QueryTrait};
use std::time::Duration;

/// Rows of one step.
const STEP: u64 = 500;

/// How long an entry of the audit is kept, and a note of who has read what: as long as the usage of the same time.
const AUDIT: Duration = Duration::from_secs(400 * 86_400);

/// What was removed because its time was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Tokens that would have confirmed an address.
    pub confirmations: u64,
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
}

/// Removes rows that are `old`, `limit` at most: how many.
pub(super) async fn remove<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    id: E::Column,
    old: Condition,
    limit: u64,
) -> Result<u64, StoreError> {
    let some = E::find().select_only().column(id).filter(old).limit(limit).into_query();
    Ok(E::delete_many().filter(id.in_subquery(some)).exec(transaction).await?.rows_affected)
}

impl Store {
    /// Removes what has expired: sessions and tokens, what was counted for a lock that is over, solutions that nobody
    /// can use again, accounts that were not confirmed within 7 days, entries of the audit and notes of who has read
    /// what after 400 days, changes after an hour. It goes in small steps, each a transaction of its own, so that other
    /// writes hardly wait; what is done when it fails stays done.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn sweep(&self, now: Time) -> Result<Swept, StoreError> {
        let over = |expires_at: &dyn Fn(i64) -> Expr| Condition::all().add(expires_at(moment(now)));
        let ended = over(&|now| sessions::Column::ExpiresAt.lte(now));
        let unused = over(&|now| confirmations::Column::ExpiresAt.lte(now));
        let expired = over(&|now| refreshes::Column::ExpiresAt.lte(now));
        let kept = i64::try_from(AUDIT.as_micros()).unwrap_or(i64::MAX);
        let past = over(&|now| audit::Column::At.lte(now - kept));
        let told = self.old_changes(now).await?;
        Ok(Swept {
            confirmations: self.all::<confirmations::Entity>(confirmations::Column::UserId, unused).await?,
            invitations: self.all::<invited::Entity>(invited::Column::Id, invitations::is_over(now)).await?,
            sessions: self.all::<sessions::Entity>(sessions::Column::Id, ended).await?,
            refreshes: self.all::<refreshes::Entity>(refreshes::Column::Hash, expired).await?,
            attempts: self.all::<tries::Entity>(tries::Column::Id, attempts::is_old(now)).await?,
            solved: self.all::<solved::Entity>(solved::Column::Digest, registrations::is_stale(now)).await?,
            accounts: self.unconfirmed(now).await?,
            audit: self.all::<audit::Entity>(audit::Column::Number, past).await?,
            changes: self.all::<changes::Entity>(changes::Column::Number, told).await?,
            reads: self.forget_read(moment(now).saturating_sub(kept)).await?,
        })
    }

    /// Removes all rows that are `old`: how many.
    async fn all<E: EntityTrait>(&self, id: E::Column, old: Condition) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let step = self
                .transact(async |transaction| remove::<E>(transaction, id, old.clone(), STEP).await)
                .await?;
            removed += step;
            if step < STEP {
                return Ok(removed);
            }
        }
    }

    async fn unconfirmed(&self, now: Time) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let step = self
                .transact(async |transaction| registrations::remove_unconfirmed(transaction, now, STEP).await)
                .await?;
            removed += step;
            if step < STEP {
                return Ok(removed);
            }
        }
    }
}

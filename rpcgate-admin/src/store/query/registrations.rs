//! Registrations: a tenant and its owner, whose address is still to be confirmed.

use super::audit::{Audit, append};
use super::confirmations;
use super::digest::Digest;
use super::removal::remove;
use super::tenants::{self, Tenant};
use super::users::{self, User, stored_email};
use super::value::moment;
use crate::store::entity::{
    keys, limit_requests, projects, quotas, solved, tenants as tenant_rows, users as user_rows,
};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, OnConflict};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
};
use std::time::Duration;
use uuid::Uuid;

/// How long an account waits for its confirmation before it is removed.
const UNCONFIRMED: Duration = Duration::from_secs(7 * 86_400);

/// A solution is kept for so long after it has expired: who found it good a moment before that still has to use it up.
const SOLVED: Duration = Duration::from_secs(10 * 60);

/// What each registration clears away of the old ones: more than it adds.
const CLEARED: u64 = 8;

/// A registration.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'r> {
    /// The tenant to be made.
    pub tenant: &'r Tenant,
    /// Its owner.
    pub user: &'r User,
    /// The digest of the token that confirms the address.
    pub confirmation: Digest,
    /// When that token expires.
    pub confirmation_expires_at: Time,
    /// The digest of the solved challenge, and when that expires; none if somebody else sees to it that a solution is
    /// used once.
    pub solved: Option<(Digest, Time)>,
}

/// What became of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registered {
    /// Tenant and user are there.
    Done,
    /// Somebody has this address and has confirmed it. Nothing was made, and the solution is used up.
    AddressTaken,
    /// The solution was used before. Nothing was made.
    SolutionUsed,
}

/// Solutions that nobody can use any more.
pub(super) fn is_stale(now: Time) -> Condition {
    let micros = i64::try_from(SOLVED.as_micros()).unwrap_or(i64::MAX);
    Condition::all().add(solved::Column::ExpiresAt.lte(moment(now) - micros))
}

/// Removes some accounts that were not confirmed in time, and all that is theirs: how many. The audit keeps what was
/// noted of them. No gateway hears of it: there are no keys where nobody was confirmed, and a tenant that has one
/// nevertheless stays.
pub(super) async fn remove_unconfirmed(
    transaction: &DatabaseTransaction,
    now: Time,
    limit: u64,
) -> Result<u64, StoreError> {
    let micros = i64::try_from(UNCONFIRMED.as_micros()).unwrap_or(i64::MAX);
    let late = user_rows::Entity::find()
        .select_only()
        .columns([user_rows::Column::Id, user_rows::Column::TenantId])
        .filter(user_rows::Column::ConfirmedAt.is_null())
        .filter(user_rows::Column::TenantId.is_not_null())
        .filter(user_rows::Column::CreatedAt.lte(moment(now) - micros))
        .order_by_asc(user_rows::Column::CreatedAt)
        .limit(limit);
    remove_accounts(transaction, late.into_tuple().all(transaction).await?).await
}

/// Removes the account that was registered with an address and never confirmed, if there is one: whoever registers next,
/// or is invited, may be the one that reads its mails. Its sessions, its tokens and its password are worth nothing then.
pub(super) async fn displace(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    let there = user_rows::Entity::find()
        .select_only()
        .columns([user_rows::Column::Id, user_rows::Column::TenantId])
        .filter(user_rows::Column::Email.eq(stored_email(email)))
        .filter(user_rows::Column::ConfirmedAt.is_null())
        .filter(user_rows::Column::TenantId.is_not_null());
    remove_accounts(transaction, there.into_tuple().all(transaction).await?).await.map(drop)
}

/// Removes users, by identifier, and those of their tenants that are empty then.
async fn remove_accounts(
    transaction: &DatabaseTransaction,
    late: Vec<(Uuid, Uuid)>,
) -> Result<u64, StoreError> {
    if late.is_empty() {
        return Ok(0);
    }
    let users = user_rows::Column::Id.is_in(late.iter().map(|(user, _)| *user));
    let removed = user_rows::Entity::delete_many().filter(users).exec(transaction).await?.rows_affected;
    let manned = user_rows::Entity::find()
        .select_only()
        .column(user_rows::Column::TenantId)
        .filter(user_rows::Column::TenantId.is_not_null());
    let keyed =
        projects::Entity::find()
            .select_only()
            .column(projects::Column::TenantId)
            .filter(projects::Column::Id.in_subquery(
                keys::Entity::find().select_only().column(keys::Column::ProjectId).into_query(),
            ));
    let empty = tenant_rows::Entity::find()
        .select_only()
        .column(tenant_rows::Column::Id)
        .filter(tenant_rows::Column::Id.is_in(late.iter().map(|(_, tenant)| *tenant)))
        .filter(tenant_rows::Column::Id.not_in_subquery(manned.into_query()))
        .filter(tenant_rows::Column::Id.not_in_subquery(keyed.into_query()));
    let empty: Vec<Uuid> = empty.into_tuple().all(transaction).await?;
    let theirs = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::TenantId.is_in(empty.iter().copied()))
        .into_query();
    let granted = quotas::Entity::delete_many().filter(quotas::Column::ProjectId.in_subquery(theirs));
    granted.exec(transaction).await?;
    let theirs = projects::Column::TenantId.is_in(empty.iter().copied());
    projects::Entity::delete_many().filter(theirs).exec(transaction).await?;
    let theirs = limit_requests::Column::TenantId.is_in(empty.iter().copied());
    limit_requests::Entity::delete_many().filter(theirs).exec(transaction).await?;
    let they = tenant_rows::Column::Id.is_in(empty);
    tenant_rows::Entity::delete_many().filter(they).exec(transaction).await?;
    Ok(removed)
}

/// Uses a solution up: whether it was still to be had.
async fn take(
    transaction: &DatabaseTransaction,
    digest: &Digest,
    expires_at: Time,
    now: Time,
) -> Result<bool, StoreError> {
    remove::<solved::Entity>(transaction, solved::Column::Digest, is_stale(now), CLEARED).await?;
    let row = solved::ActiveModel { digest: Set(digest.bytes()), expires_at: Set(moment(expires_at)) };
    let there = OnConflict::column(solved::Column::Digest).do_nothing().to_owned();
    let made = solved::Entity::insert(row).on_conflict(there).exec_without_returning(transaction).await?;
    Ok(made > 0)
}

impl Store {
    /// Makes a tenant and its owner, in the place of an account with this address that was never confirmed, the token that confirms the owner's address, and `entry` in the audit; and uses up
    /// the solution of the challenge, also if the address is taken: else one solution were enough to ask for many
    /// addresses whether somebody has them.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if an identifier is, [`StoreError::Unavailable`].
    pub async fn register(
        &self,
        registration: &Registration<'_>,
        entry: &Audit,
        now: Time,
    ) -> Result<Registered, StoreError> {
        let Registration { tenant, user, confirmation, confirmation_expires_at, solved } = *registration;
        self.transact(async |transaction| {
            remove_unconfirmed(transaction, now, CLEARED).await?;
            if let Some((digest, expires_at)) = &solved
                && !take(transaction, digest, *expires_at, now).await?
            {
                return Ok(Registered::SolutionUsed);
            }
            displace(transaction, &user.email).await?;
            let same = user_rows::Entity::find()
                .filter(user_rows::Column::Email.eq(stored_email(&user.email)))
                .count(transaction);
            if same.await? > 0 {
                return Ok(Registered::AddressTaken);
            }
            tenants::insert(transaction, tenant).await?;
            users::insert(transaction, user).await?;
            confirmations::put(transaction, user.id, &confirmation, confirmation_expires_at).await?;
            append(transaction, entry).await?;
            Ok(Registered::Done)
        })
        .await
    }
}

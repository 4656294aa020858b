//! Registrations of a tenant and its owner, whose address is not confirmed yet.

use super::audit::{Audit, append_or_simulate};
use super::confirmations;
use super::digest::Digest;
use super::id::UserId;
use super::removal::remove;
use super::tenants::{self, Tenant};
use super::users::{self, User, stored_email};
use super::value::moment;
use crate::store::entity::{
    keys, limit_requests, projects, quotas, solved, tenants as tenant_rows, users as user_rows,
};
use crate::store::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr, OnConflict};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use std::time::Duration;
use uuid::Uuid;

/// How long an account may stay unconfirmed before it is removed.
const UNCONFIRMED_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// How long a solution is kept after it has expired: a request may verify it just before and use it up only
/// afterwards.
const SOLUTION_GRACE: Duration = Duration::from_secs(10 * 60);

/// Old rows that each registration removes: more than it adds.
const REMOVED_PER_REGISTRATION: u64 = 8;

/// A registration.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'r> {
    /// The tenant to create.
    pub tenant: &'r Tenant,
    /// Its owner.
    pub user: &'r User,
    /// The digest of the token that confirms the address.
    pub confirmation: Digest,
    /// When that token expires.
    pub confirmation_expires_at: Time,
    /// The digest of the solved challenge and its expiry; `None` if the caller itself makes sure that a solution is
    /// used only once.
    pub solved: Option<(Digest, Time)>,
}

/// The outcome of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registered {
    /// Tenant and user were created.
    Done,
    /// A confirmed account has this address. Nothing was created, and the solution is used up.
    AddressTaken,
    /// The solution was used before. Nothing was created.
    SolutionUsed,
}

/// Solutions that can no longer be used.
pub(super) fn is_stale(now: Time) -> Condition {
    let micros = i64::try_from(SOLUTION_GRACE.as_micros()).unwrap_or(i64::MAX);
    Condition::all().add(solved::Column::ExpiresAt.lte(moment(now) - micros))
}

/// Removes some accounts that were not confirmed in time, with everything that belongs to them, and returns how many.
/// Their audit entries stay. Gateways are not notified: an unconfirmed account cannot make keys, and a tenant that
/// has one nevertheless stays.
pub(super) async fn remove_unconfirmed(
    transaction: &DatabaseTransaction,
    now: Time,
    limit: u64,
) -> Result<u64, StoreError> {
    let micros = i64::try_from(UNCONFIRMED_KEPT.as_micros()).unwrap_or(i64::MAX);
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

/// Removes the unconfirmed account with this address, if there is one: the next person to register or to be invited
/// may be the one who reads the address's mails. The account's sessions, tokens and password end with it.
pub(super) async fn remove_unconfirmed_account(
    transaction: &DatabaseTransaction,
    email: &str,
) -> Result<(), StoreError> {
    let existing = user_rows::Entity::find()
        .select_only()
        .columns([user_rows::Column::Id, user_rows::Column::TenantId])
        .filter(user_rows::Column::Email.eq(stored_email(email)))
        .filter(user_rows::Column::ConfirmedAt.is_null())
        .filter(user_rows::Column::TenantId.is_not_null());
    remove_accounts(transaction, existing.into_tuple().all(transaction).await?).await.map(drop)
}

/// Removes users, and those of their tenants that have no users left.
async fn remove_accounts(
    transaction: &DatabaseTransaction,
    accounts: Vec<(Uuid, Uuid)>,
) -> Result<u64, StoreError> {
    if accounts.is_empty() {
        return Ok(0);
    }
    let users = user_rows::Column::Id.is_in(accounts.iter().map(|(user, _)| *user));
    let removed = user_rows::Entity::delete_many().filter(users).exec(transaction).await?.rows_affected;
    let with_users = user_rows::Entity::find()
        .select_only()
        .column(user_rows::Column::TenantId)
        .filter(user_rows::Column::TenantId.is_not_null());
    let with_keys =
        projects::Entity::find()
            .select_only()
            .column(projects::Column::TenantId)
            .filter(projects::Column::Id.in_subquery(
                keys::Entity::find().select_only().column(keys::Column::ProjectId).into_query(),
            ));
    let empty = tenant_rows::Entity::find()
        .select_only()
        .column(tenant_rows::Column::Id)
        .filter(tenant_rows::Column::Id.is_in(accounts.iter().map(|(_, tenant)| *tenant)))
        .filter(tenant_rows::Column::Id.not_in_subquery(with_users.into_query()))
        .filter(tenant_rows::Column::Id.not_in_subquery(with_keys.into_query()));
    let empty: Vec<Uuid> = empty.into_tuple().all(transaction).await?;
    let owned = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::TenantId.is_in(empty.iter().copied()))
        .into_query();
    let quotas_of_projects =
        quotas::Entity::delete_many().filter(quotas::Column::ProjectId.in_subquery(owned));
    quotas_of_projects.exec(transaction).await?;
    let owned = projects::Column::TenantId.is_in(empty.iter().copied());
    projects::Entity::delete_many().filter(owned).exec(transaction).await?;
    let owned = limit_requests::Column::TenantId.is_in(empty.iter().copied());
    limit_requests::Entity::delete_many().filter(owned).exec(transaction).await?;
    let tenants = tenant_rows::Column::Id.is_in(empty);
    tenant_rows::Entity::delete_many().filter(tenants).exec(transaction).await?;
    Ok(removed)
}

/// The account that has an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Existing {
    Nobody,
    /// A user whose address is not confirmed, and its tenant.
    Unconfirmed(Uuid, Uuid),
    /// An account that keeps the address.
    Confirmed,
}

impl Existing {
    async fn find(transaction: &DatabaseTransaction, email: &str) -> Result<Self, StoreError> {
        let found = user_rows::Entity::find()
            .select_only()
            .columns([user_rows::Column::Id, user_rows::Column::TenantId, user_rows::Column::ConfirmedAt])
            .filter(user_rows::Column::Email.eq(stored_email(email)));
        Ok(match found.into_tuple::<(Uuid, Option<Uuid>, Option<i64>)>().one(transaction).await? {
            None => Existing::Nobody,
            Some((user, Some(tenant), None)) => Existing::Unconfirmed(user, tenant),
            Some(_) => Existing::Confirmed,
        })
    }
}

/// What an account has in place of an address while it is created: no address is like this.
fn stand_in_email(user: UserId) -> String {
    user.to_string()
}

/// An account like this one, but with identifiers of its own.
fn stand_in(tenant: &Tenant, user: &User, now: Time) -> (Tenant, User) {
    let (tenant_id, user_id) = (TenantId(fresh_id(now)), UserId(fresh_id(now)));
    let email = stand_in_email(user_id);
    let user = User { id: user_id, tenant: Some(tenant_id), email, ..user.clone() };
    (Tenant { id: tenant_id, ..tenant.clone() }, user)
}

fn ids_of(tenant: &Tenant, user: &User) -> (Uuid, Uuid) {
    (Uuid::from_u128(user.id.0), Uuid::from_u128(tenant.id.0))
}

/// Uses a solution, or anything else that is valid once, up and returns whether it was unused.
pub(super) async fn use_solution(
    transaction: &DatabaseTransaction,
    digest: &Digest,
    expires_at: Time,
    now: Time,
) -> Result<bool, StoreError> {
    remove::<solved::Entity>(transaction, solved::Column::Digest, is_stale(now), REMOVED_PER_REGISTRATION)
        .await?;
    let row = solved::ActiveModel { digest: Set(digest.bytes()), expires_at: Set(moment(expires_at)) };
    let existing = OnConflict::column(solved::Column::Digest).do_nothing().to_owned();
    let inserted =
        solved::Entity::insert(row).on_conflict(existing).exec_without_returning(transaction).await?;
    Ok(inserted > 0)
}

impl Store {
    /// Creates a tenant, its owner and the token that confirms the owner's address, and adds `entry` to the audit. An
    /// unconfirmed account with the same address is removed. The solution of the challenge is used up even if the address
    /// is taken; otherwise one solution would suffice to probe many addresses.
    ///
    /// Whether an account has the address must not show in the time that this takes, so the statements are the same in
    /// all cases: accounts are created under stand-in addresses, one account is removed, and the one that remains gets
    /// the address.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if an identifier exists already, [`StoreError::Unavailable`].
    pub async fn register(
        &self,
        registration: &Registration<'_>,
        entry: &Audit,
        now: Time,
    ) -> Result<Registered, StoreError> {
        let Registration { tenant, user, confirmation, confirmation_expires_at, solved } = *registration;
        self.transact(async |transaction| {
            remove_unconfirmed(transaction, now, REMOVED_PER_REGISTRATION).await?;
            if let Some((digest, expires_at)) = &solved
                && !use_solution(transaction, digest, *expires_at, now).await?
            {
                return Ok(Registered::SolutionUsed);
            }
            let existing = Existing::find(transaction, &user.email).await?;
            let mut tenants = vec![tenant.clone()];
            let mut users = vec![User { email: stand_in_email(user.id), ..user.clone() }];
            let mut tokens = vec![(user.id, confirmation)];
            let removed = match existing {
                Existing::Nobody => {
                    // There is nothing to remove, so another account is created for it.
                    let (other_tenant, other) = stand_in(tenant, user, now);
                    let ids = ids_of(&other_tenant, &other);
                    tokens.push((other.id, Digest::of(&other.email)));
                    tenants.push(other_tenant);
                    users.push(other);
                    ids
                }
                Existing::Unconfirmed(user, tenant) => (user, tenant),
                Existing::Confirmed => ids_of(tenant, user),
            };
            tenants::insert_all(transaction, &tenants).await?;
            users::insert_all(transaction, &users).await?;
            confirmations::put_all(transaction, &tokens, confirmation_expires_at).await?;
            remove_accounts(transaction, vec![removed]).await?;
            user_rows::Entity::update_many()
                .col_expr(user_rows::Column::Email, Expr::value(stored_email(&user.email)))
                .filter(user_rows::Column::Id.eq(Uuid::from_u128(user.id.0)))
                .exec(transaction)
                .await?;
            let is_free = existing != Existing::Confirmed;
            append_or_simulate(transaction, entry, is_free).await?;
            Ok(if is_free { Registered::Done } else { Registered::AddressTaken })
        })
        .await
    }
}

//! Registrations of a tenant and its owner, whose address is not confirmed yet.

use super::audit::{Audit, append_or_simulate};
use super::confirmations;
use super::digest::Digest;
use super::id::UserId;
use super::removal::{RemovalBatch, try_to_remove};
use super::tenants::{self, Tenant};
use super::users::{self, User, stored_email};
use crate::entity::{
    checkouts, confirmations as stored_confirmations, contracts, invoices, keys, limit_requests, mail_tokens,
    projects, quotas, sessions, solved, tenants as tenant_rows, tier_changes, users as user_rows,
};
use crate::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, OnConflict};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};
use std::time::Duration;

const UNCONFIRMED_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// The time that a solution is kept after it has expired: a request may verify it just before and consume it only
/// afterwards.
const SOLUTION_GRACE: Duration = Duration::from_secs(10 * 60);

/// A registration.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'r> {
    /// The tenant to create.
    pub tenant: &'r Tenant,
    /// Its owner.
    pub user: &'r User,
    /// The digest of the token that confirms the address.
    pub confirmation: Digest,
    /// The expiry time of that token.
    pub confirmation_expires_at: Time,
    /// The digest of the solved challenge and its expiry; `None` if the caller itself ensures that a solution is used
    /// once.
    pub solved: Option<(Digest, Time)>,
}

/// The outcome of a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registered {
    /// Tenant and user were created.
    Done,
    /// A confirmed account has this address. Nothing was created, and the solution is consumed.
    AddressTaken,
    /// The solution was used before. Nothing was created.
    SolutionUsed,
}

pub(super) fn is_stale(now: Time) -> Condition {
    Condition::all().add(solved::Column::ExpiresAt.lte(now.minus(SOLUTION_GRACE)))
}

/// Removes some accounts that were not confirmed in time, with their dependent rows, and returns their number. Keeps
/// their audit entries, and accounts whose tenant [is in use](in_use). Gateways are not notified: an unconfirmed
/// account cannot make keys.
pub(super) async fn remove_unconfirmed(
    transaction: &DatabaseTransaction,
    now: Time,
    batch: RemovalBatch,
) -> Result<u64, StoreError> {
    let used = tenant_rows::Entity::find().select_only().column(tenant_rows::Column::Id).filter(in_use());
    let led = user_rows::Entity::find()
        .select_only()
        .column(user_rows::Column::TenantId)
        .filter(user_rows::Column::TenantId.is_not_null())
        .filter(user_rows::Column::ConfirmedAt.is_not_null());
    // A member who never confirmed can be removed, whatever the tenant of other members owes.
    let may_go = Condition::any()
        .add(user_rows::Column::TenantId.not_in_subquery(used.into_query()))
        .add(user_rows::Column::TenantId.in_subquery(led.into_query()));
    let late = user_rows::Entity::find()
        .select_only()
        .columns([user_rows::Column::Id, user_rows::Column::TenantId])
        .filter(user_rows::Column::ConfirmedAt.is_null())
        .filter(user_rows::Column::TenantId.is_not_null())
        .filter(may_go)
        .filter(user_rows::Column::CreatedAt.lte(now.minus(UNCONFIRMED_KEPT)))
        .order_by_asc(user_rows::Column::CreatedAt)
        .order_by_asc(user_rows::Column::Id)
        .offset(batch.skip)
        .limit(batch.limit);
    remove_accounts(transaction, late.into_tuple().all(transaction).await?).await
}

/// Matches tenants that are not removed with an unconfirmed account: those that owe money, have paid, or have begun to
/// pay, and those with keys, which a gateway may know.
fn in_use() -> Condition {
    let has_keys = Expr::exists(
        keys::Entity::find()
            .select_only()
            .column(keys::Column::Id)
            .filter(
                Expr::col((keys::Entity, keys::Column::ProjectId))
                    .equals((projects::Entity, projects::Column::Id)),
            )
            .into_query(),
    );
    let with_keys = of_its_own::<projects::Entity>(projects::Column::TenantId).filter(has_keys).into_query();
    Condition::any()
        .add(tenant_rows::Column::Tier.ne(Tier::Free))
        .add(tenant_rows::Column::CustomPlanId.is_not_null())
        .add(Expr::exists(of_its_own::<invoices::Entity>(invoices::Column::TenantId).into_query()))
        .add(Expr::exists(of_its_own::<checkouts::Entity>(checkouts::Column::TenantId).into_query()))
        .add(Expr::exists(of_its_own::<contracts::Entity>(contracts::Column::TenantId).into_query()))
        .add(Expr::exists(of_its_own::<tier_changes::Entity>(tier_changes::Column::TenantId).into_query()))
        .add(Expr::exists(with_keys))
}

fn of_its_own<E: EntityTrait>(column: E::Column) -> Select<E> {
    let is_its_own = Expr::col((E::default(), column)).equals((tenant_rows::Entity, tenant_rows::Column::Id));
    E::find().select_only().column(column).filter(is_its_own)
}

/// Removes the unconfirmed account with this address, with its sessions, tokens and password: the next person to
/// register or to be invited may be the one who reads the address's mails.
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
    release_addresses(transaction, existing.into_tuple().all(transaction).await?).await
}

/// Removes accounts whose addresses another account gets. Accounts that cannot be removed lose their addresses,
/// passwords and sessions, so that the other account never depends on the removal.
async fn release_addresses(
    transaction: &DatabaseTransaction,
    accounts: Vec<(UserId, TenantId)>,
) -> Result<(), StoreError> {
    let users: Vec<UserId> = accounts.iter().map(|(user, _)| *user).collect();
    let remove =
        async |transaction: &DatabaseTransaction| remove_accounts(transaction, accounts).await.map(drop);
    if try_to_remove(transaction, "unconfirmed account", remove).await? {
        return Ok(());
    }
    for user in users {
        let email = stand_in_email(user);
        user_rows::Entity::update_many()
            .col_expr(user_rows::Column::Email, Expr::value(email))
            .col_expr(user_rows::Column::Password, Expr::value(None::<String>))
            .filter(user_rows::Column::Id.eq(user))
            .exec(transaction)
            .await?;
        let over = Expr::value(0_i64);
        sessions::Entity::update_many()
            .col_expr(sessions::Column::ExpiresAt, over.clone())
            .filter(sessions::Column::UserId.eq(user))
            .exec(transaction)
            .await?;
        stored_confirmations::Entity::update_many()
            .col_expr(stored_confirmations::Column::ExpiresAt, over.clone())
            .filter(stored_confirmations::Column::UserId.eq(user))
            .exec(transaction)
            .await?;
        mail_tokens::Entity::update_many()
            .col_expr(mail_tokens::Column::ExpiresAt, over)
            .filter(mail_tokens::Column::UserId.eq(user))
            .exec(transaction)
            .await?;
    }
    Ok(())
}

async fn remove_accounts(
    transaction: &DatabaseTransaction,
    accounts: Vec<(UserId, TenantId)>,
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
    let empty = tenant_rows::Entity::find()
        .select_only()
        .column(tenant_rows::Column::Id)
        .filter(tenant_rows::Column::Id.is_in(accounts.iter().map(|(_, tenant)| *tenant)))
        .filter(tenant_rows::Column::Id.not_in_subquery(with_users.into_query()))
        .filter(in_use().not());
    let empty: Vec<TenantId> = empty.into_tuple().all(transaction).await?;
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Existing {
    Nobody,
    Unconfirmed(UserId, TenantId),
    Confirmed,
}

impl Existing {
    async fn find(transaction: &DatabaseTransaction, email: &str) -> Result<Self, StoreError> {
        let found = user_rows::Entity::find()
            .select_only()
            .columns([user_rows::Column::Id, user_rows::Column::TenantId, user_rows::Column::ConfirmedAt])
            .filter(user_rows::Column::Email.eq(stored_email(email)));
        Ok(match found.into_tuple::<(UserId, Option<TenantId>, Option<Time>)>().one(transaction).await? {
            None => Existing::Nobody,
            Some((user, Some(tenant), None)) => Existing::Unconfirmed(user, tenant),
            Some(_) => Existing::Confirmed,
        })
    }
}

/// Returns the placeholder of an address while an account is created. It differs from all addresses.
fn stand_in_email(user: UserId) -> String {
    user.to_string()
}

fn stand_in(tenant: &Tenant, user: &User, now: Time) -> (Tenant, User) {
    let tenant_id = TenantId(fresh_id(now));
    let user_id = UserId(fresh_id(now));
    let email = stand_in_email(user_id);
    let user = User { id: user_id, tenant: Some(tenant_id), email, ..user.clone() };
    (Tenant { id: tenant_id, ..tenant.clone() }, user)
}

fn ids_of(tenant: &Tenant, user: &User) -> (UserId, TenantId) {
    (user.id, tenant.id)
}

/// Consumes a solution, or another one-time value, and reports whether it was unused.
pub(super) async fn use_solution(
    transaction: &DatabaseTransaction,
    digest: &Digest,
    expires_at: Time,
) -> Result<bool, StoreError> {
    let row = solved::ActiveModel { digest: Set(digest.bytes()), expires_at: Set(expires_at) };
    let existing = OnConflict::column(solved::Column::Digest).do_nothing().to_owned();
    let inserted =
        solved::Entity::insert(row).on_conflict(existing).exec_without_returning(transaction).await?;
    Ok(inserted > 0)
}

impl Store {
    /// Creates a tenant, its owner and the token that confirms the owner's address, and adds `entry` to the audit.
    /// Removes an unconfirmed account with the same address. Consumes the solution of the challenge even if the address
    /// is taken; otherwise one solution would suffice to probe many addresses. Only the sweep removes old rows, so a
    /// row that cannot be removed fails no registration.
    ///
    /// The time that this takes must not reveal if an account has the address, so the statements are the same in all
    /// cases: accounts are created under placeholder addresses, one account is removed, and the one that remains gets
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
            if let Some((digest, expires_at)) = &solved
                && !use_solution(transaction, digest, *expires_at).await?
            {
                return Ok(Registered::SolutionUsed);
            }
            let existing = Existing::find(transaction, &user.email).await?;
            let mut tenants = vec![tenant.clone()];
            let mut users = vec![User { email: stand_in_email(user.id), ..user.clone() }];
            let mut tokens = vec![(user.id, confirmation)];
            let removed = match existing {
                Existing::Nobody => {
                    // Without an account to remove, another one is created for it.
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
            release_addresses(transaction, vec![removed]).await?;
            user_rows::Entity::update_many()
                .col_expr(user_rows::Column::Email, Expr::value(stored_email(&user.email)))
                .filter(user_rows::Column::Id.eq(user.id))
                .exec(transaction)
                .await?;
            let is_free = existing != Existing::Confirmed;
            append_or_simulate(transaction, entry, is_free).await?;
            Ok(if is_free { Registered::Done } else { Registered::AddressTaken })
        })
        .await
    }
}

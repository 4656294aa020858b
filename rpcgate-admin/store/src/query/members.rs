//! The members of a tenant, which are its users.

use super::audit::{Audit, append};
use super::id::UserId;
use super::session_rows;
use super::users::{Role, User};
use crate::entity::invitations;
use crate::entity::users::{Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    Select,
};

/// A change to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberChange {
    /// The tenant.
    pub tenant: TenantId,
    /// The member.
    pub member: UserId,
    /// The requesting user: another member, or the member itself.
    pub by: UserId,
    /// The member's new role, or `None` to remove the member.
    pub role: Option<Role>,
}

/// The outcome of a [`MemberChange`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberChangeOutcome {
    /// The change was made. Holds the member as it is now, or as it was before its removal.
    Done(User),
    /// The member already has this role.
    Unchanged(User),
    /// The requesting user lacks the permission. Nothing changed.
    Refused,
    /// The tenant would have no owner left. Nothing changed.
    LastOwner,
}

fn of(tenant: TenantId) -> Select<Entity> {
    Entity::find().filter(Column::TenantId.eq(tenant))
}

pub(super) async fn one(
    database: &impl ConnectionTrait,
    tenant: TenantId,
    member: UserId,
) -> Result<Option<User>, StoreError> {
    let found = of(tenant).filter(Column::Id.eq(member)).one(database).await?;
    Ok(found.map(User::from))
}

pub(super) async fn count(transaction: &DatabaseTransaction, tenant: TenantId) -> Result<u64, StoreError> {
    Ok(of(tenant).count(transaction).await?)
}

pub(super) async fn has_address(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    email: &str,
) -> Result<bool, StoreError> {
    Ok(of(tenant).filter(Column::Email.eq(email)).count(transaction).await? > 0)
}

/// Withdraws the invitations of a user, except those to a role in `kept`, and reports whether there were any.
pub(super) async fn withdraw_invitations(
    transaction: &DatabaseTransaction,
    user: UserId,
    kept: &[Role],
) -> Result<bool, StoreError> {
    let theirs = invitations::Entity::delete_many()
        .filter(invitations::Column::UserId.eq(user))
        .filter(invitations::Column::Role.is_not_in(kept.iter().copied()));
    Ok(theirs.exec(transaction).await?.rows_affected > 0)
}

impl Store {
    /// Returns the members of a tenant, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn members(&self, tenant: TenantId) -> Result<Vec<User>, StoreError> {
        self.read(async |database| {
            let all = of(tenant).order_by_asc(Column::CreatedAt).order_by_asc(Column::Id);
            Ok(all.all(database).await?.into_iter().map(User::from).collect())
        })
        .await
    }

    /// Returns a member of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn member(&self, tenant: TenantId, member: UserId) -> Result<Option<User>, StoreError> {
        self.read(async |database| one(database, tenant, member).await).await
    }

    /// Changes a member's role, or removes the member, which ends its sessions. `permits` gets the current roles of the
    /// requesting user and of the member. Withdraws the member's invitations, except those to a role in `may_give`.
    /// Gateways are not affected. Adds `entry` to the audit if something changed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user is not a member of this tenant, [`StoreError::Unavailable`].
    pub async fn change_member(
        &self,
        change: &MemberChange,
        permits: impl Fn(Role, Role) -> bool + Send,
        may_give: &[Role],
        entry: &Audit,
    ) -> Result<MemberChangeOutcome, StoreError> {
        let MemberChange { tenant, member: id, by, role } = *change;
        self.transact(async |transaction| {
            let found = one(transaction, tenant, id).await?;
            let member = found.ok_or(StoreError::NotFound("user"))?;
            // A user who is no longer a member may not change anything here, whatever its role was.
            let by = one(transaction, tenant, by).await?;
            if !by.is_some_and(|by| permits(by.role, member.role)) {
                return Ok(MemberChangeOutcome::Refused);
            }
            if role == Some(member.role) {
                return Ok(MemberChangeOutcome::Unchanged(member));
            }
            if member.role == Role::Owner {
                let owners = of(tenant).filter(Column::Role.eq(Role::Owner)).count(transaction);
                if owners.await? <= 1 {
                    return Ok(MemberChangeOutcome::LastOwner);
                }
            }
            withdraw_invitations(transaction, id, may_give).await?;
            let Some(role) = role else {
                session_rows::end_all(transaction, id, None).await?;
                Entity::delete_by_id(id).exec(transaction).await?;
                append(transaction, entry).await?;
                return Ok(MemberChangeOutcome::Done(member));
            };
            let update =
                Entity::update_many().col_expr(Column::Role, Expr::value(role)).filter(Column::Id.eq(id));
            update.exec(transaction).await?;
            append(transaction, entry).await?;
            Ok(MemberChangeOutcome::Done(User { role, ..member }))
        })
        .await
    }
}

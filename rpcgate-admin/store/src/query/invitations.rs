//! Invitations to join a tenant.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::{InvitationId, UserId};
use super::members;
use super::plans::{counts, full};
use super::registrations;
use super::users::{self, Role, User, stored_email};
use super::value::insert_error;
use crate::entity::invitations::{ActiveModel, Column, Entity, Model};
use crate::entity::users as user_rows;
use crate::{Store, StoreError};
use rpcgate_config::Plans;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, Select,
};

pub(super) const MAX_OPEN: u64 = 100;
const FULL: &str = "a tenant may have 100 open invitations: withdraw one, or wait until one expires";

/// An invitation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// Its identifier. It grants no access.
    pub id: InvitationId,
    /// The tenant to join.
    pub tenant: TenantId,
    /// The inviting user.
    pub by: UserId,
    /// The invited address, in lower case when read back.
    pub email: String,
    /// The role of the new member.
    pub role: Role,
    /// The creation time.
    pub created_at: Time,
    /// The expiry time.
    pub expires_at: Time,
}

impl From<Model> for Invitation {
    fn from(row: Model) -> Self {
        Invitation {
            id: row.id,
            tenant: row.tenant_id,
            by: row.user_id,
            email: row.email,
            role: row.role,
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

/// The outcome of creating an invitation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InviteOutcome {
    /// It was created.
    Created,
    /// It was created, but the address already has an account, and it cannot be accepted while that exists.
    HasAccount,
    /// The address belongs to a member. Nothing was created.
    Member,
    /// The inviting user lacks the permission. Nothing was created.
    Refused,
}

/// The acceptance of an invitation.
#[derive(Clone, Copy)]
pub struct InvitationAcceptance<'j> {
    /// The digest of the invitation's token.
    pub token: Digest,
    /// The identifier of the new user.
    pub user: UserId,
    /// The new user's name.
    pub name: &'j str,
    /// The hash of the new user's password in PHC string format.
    pub password: &'j str,
}

impl std::fmt::Debug for InvitationAcceptance<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InvitationAcceptance")
            .field("user", &self.user)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

pub(super) fn is_over(now: Time) -> Condition {
    Condition::all().add(Column::ExpiresAt.lte(now))
}

fn open(now: Time) -> Select<Entity> {
    Entity::find().filter(Column::ExpiresAt.gt(now))
}

fn of(tenant: TenantId, now: Time) -> Select<Entity> {
    open(now).filter(Column::TenantId.eq(tenant))
}

async fn check_member_limit(
    transaction: &DatabaseTransaction,
    configured: &Plans,
    tenant: TenantId,
    now: Time,
) -> Result<(), StoreError> {
    let max = counts(transaction, configured, tenant, now).await?.members;
    if members::count(transaction, tenant).await? >= max.into() {
        return Err(full(max, "members", "remove one"));
    }
    Ok(())
}

impl Store {
    /// Creates an invitation, replacing an earlier one of the address in this tenant. `token` is the digest of its
    /// token. `permits` gets the current role of the inviting user. Adds `entry` to the audit if the invitation is
    /// created.
    ///
    /// # Errors
    /// [`StoreError::Full`] if there are 100 others, or if the number of members that the plan allows is reached;
    /// [`StoreError::Taken`] if one has this identifier or token; [`StoreError::Unavailable`].
    pub async fn invite(
        &self,
        invitation: &Invitation,
        token: &Digest,
        permits: impl Fn(Role) -> bool + Send,
        entry: &Audit,
    ) -> Result<InviteOutcome, StoreError> {
        let Invitation { id, tenant, by, email, role, created_at, expires_at } = invitation;
        let tenant = *tenant;
        let now = *created_at;
        let email = stored_email(email);
        self.transact(async |transaction| {
            let inviter = members::one(transaction, tenant, *by).await?;
            if !inviter.is_some_and(|inviter| permits(inviter.role)) {
                return Ok(InviteOutcome::Refused);
            }
            if members::has_address(transaction, tenant, &email).await? {
                return Ok(InviteOutcome::Member);
            }
            check_member_limit(transaction, &self.plans, tenant, now).await?;
            let others = of(tenant, now).filter(Column::Email.ne(email.as_str())).count(transaction);
            if others.await? >= MAX_OPEN {
                return Err(StoreError::Full(FULL.into()));
            }
            let before = Entity::delete_many()
                .filter(Column::TenantId.eq(tenant))
                .filter(Column::Email.eq(email.as_str()));
            before.exec(transaction).await?;
            let known = user_rows::Entity::find()
                .filter(user_rows::Column::Email.eq(email.as_str()))
                .filter(user_rows::Column::ConfirmedAt.is_not_null());
            let is_known = known.count(transaction).await? > 0;
            let row = ActiveModel {
                id: Set(*id),
                tenant_id: Set(tenant),
                user_id: Set(*by),
                email: Set(email),
                role: Set(*role),
                hash: Set(token.bytes()),
                created_at: Set(now),
                expires_at: Set(*expires_at),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            let unique = Some(("hash", "text"));
            done.map_err(|error| insert_error(error, "invitation", "tenant", unique))?;
            append(transaction, entry).await?;
            Ok(if is_known { InviteOutcome::HasAccount } else { InviteOutcome::Created })
        })
        .await
    }

    /// Returns the open invitations of a tenant, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invitations(&self, tenant: TenantId, now: Time) -> Result<Vec<Invitation>, StoreError> {
        self.read(async |database| {
            let all = of(tenant, now).order_by_asc(Column::CreatedAt).order_by_asc(Column::Id);
            Ok(all.all(database).await?.into_iter().map(Invitation::from).collect())
        })
        .await
    }

    /// Returns an open invitation of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invitation(
        &self,
        tenant: TenantId,
        id: InvitationId,
        now: Time,
    ) -> Result<Option<Invitation>, StoreError> {
        self.read(async |database| {
            let found = of(tenant, now).filter(Column::Id.eq(id)).one(database).await?;
            Ok(found.map(Invitation::from))
        })
        .await
    }

    /// Returns the open invitation whose token has this digest. It is looked up without a tenant, because the invited
    /// person belongs to none yet.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invitation_by_token(
        &self,
        token: &Digest,
        now: Time,
    ) -> Result<Option<Invitation>, StoreError> {
        self.read(async |database| {
            let found = open(now).filter(Column::Hash.eq(token.bytes())).one(database).await?;
            Ok(found.map(Invitation::from))
        })
        .await
    }

    /// Withdraws an open invitation of a tenant.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, or was accepted, replaced or withdrawn, or has expired;
    /// [`StoreError::Unavailable`].
    pub async fn withdraw_invitation(
        &self,
        tenant: TenantId,
        id: InvitationId,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let deletion = Entity::delete_many()
                .filter(Column::Id.eq(id))
                .filter(Column::TenantId.eq(tenant))
                .filter(Column::ExpiresAt.gt(now));
            if deletion.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("invitation"));
            }
            Ok(())
        })
        .await
    }

    /// Consumes an invitation and creates a user of its tenant with its role, whose address counts as confirmed. Adds
    /// `entry` to the audit with that user, the tenant and the role filled in. Returns `None` if the invitation does
    /// not exist or has expired.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if an account now has the address; [`StoreError::Full`] if the number of members that the
    /// plan allows is reached, in which case the invitation stays; [`StoreError::Unavailable`].
    pub async fn join(
        &self,
        acceptance: &InvitationAcceptance<'_>,
        entry: &Audit,
        now: Time,
    ) -> Result<Option<User>, StoreError> {
        let InvitationAcceptance { token, user: id, name, password } = *acceptance;
        self.transact(async |transaction| {
            let found = open(now).filter(Column::Hash.eq(token.bytes())).one(transaction).await?;
            let Some(invitation) = found.map(Invitation::from) else { return Ok(None) };
            check_member_limit(transaction, &self.plans, invitation.tenant, now).await?;
            let deletion = Entity::delete_by_id(invitation.id);
            if deletion.exec(transaction).await?.rows_affected == 0 {
                return Ok(None);
            }
            let user = User {
                id,
                tenant: Some(invitation.tenant),
                email: invitation.email,
                name: name.to_owned(),
                role: invitation.role,
                password: Some(password.to_owned()),
                confirmed_at: Some(now),
                created_at: now,
            };
            registrations::remove_unconfirmed_account(transaction, &user.email).await?;
            users::insert(transaction, &user).await?;
            let entry = Audit {
                tenant: user.tenant,
                user: Some(id),
                subject: id.to_string(),
                detail: user.role.to_string(),
                ..entry.clone()
            };
            append(transaction, &entry).await?;
            Ok(Some(user))
        })
        .await
    }
}

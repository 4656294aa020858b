//! Invitations: who may join a tenant.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::{InvitationId, UserId};
use super::members;
use super::plans::{counts, full};
use super::registrations;
use super::users::{self, Role, User, stored_email};
use super::value::{insert_error, moment, time, unreadable};
use crate::store::entity::invitations::{ActiveModel, Column, Entity, Model};
use crate::store::entity::users as user_rows;
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::config::Plans;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, Select,
};
use uuid::Uuid;

/// Open invitations that a tenant may have at once.
pub(super) const MOST: u64 = 100;
const FULL: &str = "a tenant may have 100 open invitations: withdraw one, or wait until one expires";

/// An invitation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// Its identifier. It opens nothing.
    pub id: InvitationId,
    /// The tenant to join.
    pub tenant: TenantId,
    /// Who invites.
    pub by: UserId,
    /// The address that is invited; read back in lower case.
    pub email: String,
    /// What whoever joins will be.
    pub role: Role,
    /// When it was made.
    pub created_at: Time,
    /// When it ends.
    pub expires_at: Time,
}

impl TryFrom<Model> for Invitation {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Invitation {
            id: InvitationId(row.id.as_u128()),
            tenant: TenantId(row.tenant_id.as_u128()),
            by: UserId(row.user_id.as_u128()),
            email: row.email,
            role: row.role.parse().map_err(|_| unreadable("role", row.role))?,
            created_at: time(row.created_at),
            expires_at: time(row.expires_at),
        })
    }
}

/// What became of an invitation that somebody made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invited {
    /// It is there.
    Done,
    /// It is there, but the address has an account elsewhere, so that nobody can accept it as long as that is so.
    HasAccount,
    /// The address is a member's. Nothing was made.
    Member,
    /// Whoever invites is not permitted to. Nothing was made.
    Refused,
}

/// Somebody who accepts an invitation.
#[derive(Clone, Copy)]
pub struct Joining<'j> {
    /// The digest of the invitation's token.
    pub token: Digest,
    /// The identifier of the new user.
    pub user: UserId,
    /// The new user's name.
    pub name: &'j str,
    /// The hash of the new user's password in PHC's form.
    pub password: &'j str,
}

impl std::fmt::Debug for Joining<'_> {
    /// The password's hash is left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joining").field("user", &self.user).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Invitations whose time is over.
pub(super) fn is_over(now: Time) -> Condition {
    Condition::all().add(Column::ExpiresAt.lte(moment(now)))
}

fn open(now: Time) -> Select<Entity> {
    Entity::find().filter(Column::ExpiresAt.gt(moment(now)))
}

fn of(tenant: TenantId, now: Time) -> Select<Entity> {
    open(now).filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)))
}

/// Checks that a tenant may have another member.
async fn expect_room(
    transaction: &DatabaseTransaction,
    configured: &Plans,
    tenant: TenantId,
) -> Result<(), StoreError> {
    let most = counts(transaction, configured, tenant).await?.members;
    if members::count(transaction, tenant).await? >= most.into() {
        return Err(full(most, "members", "remove one"));
    }
    Ok(())
}

impl Store {
    /// Makes an invitation, in the place of the one that the address may have in this tenant. `token` is the digest of
    /// its token. `permits` is asked with the role that whoever invites has at this moment. `entry` is left in the audit
    /// if the invitation is made.
    ///
    /// # Errors
    /// [`StoreError::Full`] if there are 100 others, or as many members as the plan allows; [`StoreError::Taken`] if
    /// there is one with this identifier or token; [`StoreError::Unavailable`].
    pub async fn invite(
        &self,
        invitation: &Invitation,
        token: &Digest,
        permits: impl Fn(Role) -> bool + Send,
        entry: &Audit,
    ) -> Result<Invited, StoreError> {
        let Invitation { id, tenant, by, email, role, created_at, expires_at } = invitation;
        let (tenant, now, email) = (*tenant, *created_at, stored_email(email));
        self.transact(async |transaction| {
            let inviter = members::one(transaction, tenant, *by).await?;
            if !inviter.is_some_and(|inviter| permits(inviter.role)) {
                return Ok(Invited::Refused);
            }
            if members::has_address(transaction, tenant, &email).await? {
                return Ok(Invited::Member);
            }
            expect_room(transaction, &self.plans, tenant).await?;
            let others = of(tenant, now).filter(Column::Email.ne(email.as_str())).count(transaction);
            if others.await? >= MOST {
                return Err(StoreError::Full(FULL.into()));
            }
            let before = Entity::delete_many()
                .filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)))
                .filter(Column::Email.eq(email.as_str()));
            before.exec(transaction).await?;
            let known = user_rows::Entity::find()
                .filter(user_rows::Column::Email.eq(email.as_str()))
                .filter(user_rows::Column::ConfirmedAt.is_not_null());
            let is_known = known.count(transaction).await? > 0;
            let row = ActiveModel {
                id: Set(Uuid::from_u128(id.0)),
                tenant_id: Set(Uuid::from_u128(tenant.0)),
                user_id: Set(Uuid::from_u128(by.0)),
                email: Set(email),
                role: Set(role.as_str().into()),
                hash: Set(token.bytes()),
                created_at: Set(moment(now)),
                expires_at: Set(moment(*expires_at)),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            let unique = Some(("hash", "text"));
            done.map_err(|error| insert_error(error, "invitation", "tenant", unique))?;
            append(transaction, entry).await?;
            Ok(if is_known { Invited::HasAccount } else { Invited::Done })
        })
        .await
    }

    /// The open invitations of a tenant, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn invitations(&self, tenant: TenantId, now: Time) -> Result<Vec<Invitation>, StoreError> {
        self.read(async |database| {
            let all = of(tenant, now).order_by_asc(Column::CreatedAt).order_by_asc(Column::Id);
            all.all(database).await?.into_iter().map(Invitation::try_from).collect()
        })
        .await
    }

    /// The open invitation of a tenant that has this identifier.
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
            let found = of(tenant, now).filter(Column::Id.eq(Uuid::from_u128(id.0))).one(database).await?;
            found.map(Invitation::try_from).transpose()
        })
        .await
    }

    /// The open invitation whose token has this digest: for whoever was sent the token, and belongs to no tenant yet.
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
            found.map(Invitation::try_from).transpose()
        })
        .await
    }

    /// Withdraws an open invitation of a tenant.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, was accepted, replaced or withdrawn, or has expired;
    /// [`StoreError::Unavailable`].
    pub async fn withdraw_invitation(
        &self,
        tenant: TenantId,
        id: InvitationId,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let it = Entity::delete_many()
                .filter(Column::Id.eq(Uuid::from_u128(id.0)))
                .filter(Column::TenantId.eq(Uuid::from_u128(tenant.0)))
                .filter(Column::ExpiresAt.gt(moment(now)));
            if it.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("invitation"));
            }
            Ok(())
        })
        .await
    }

    /// Uses an invitation up: makes a user of its tenant, with its role, whose address needs no other confirmation.
    /// `entry` is left in the audit with that user, the tenant and the role filled in. None if there is no such
    /// invitation, or not any more.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if somebody has the address by now, [`StoreError::Full`] if the tenant has as many members as
    /// its plan allows, and then the invitation stays; [`StoreError::Unavailable`].
    pub async fn join(
        &self,
        joining: &Joining<'_>,
        entry: &Audit,
        now: Time,
    ) -> Result<Option<User>, StoreError> {
        let Joining { token, user: id, name, password } = *joining;
        self.transact(async |transaction| {
            let found = open(now).filter(Column::Hash.eq(token.bytes())).one(transaction).await?;
            let Some(invitation) = found.map(Invitation::try_from).transpose()? else { return Ok(None) };
            expect_room(transaction, &self.plans, invitation.tenant).await?;
            let it = Entity::delete_by_id(Uuid::from_u128(invitation.id.0));
            if it.exec(transaction).await?.rows_affected == 0 {
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
            registrations::displace(transaction, &user.email).await?;
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

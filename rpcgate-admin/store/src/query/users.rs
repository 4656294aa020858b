//! Users.

use super::audit::{Audit, append};
use super::id::{SessionId, UserId};
use super::mail_tokens;
use super::session_rows;
use super::value::{insert_error, moment, time, unreadable};
use crate::entity::users::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// The role of a member; `GET /roles` lists what each may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MemberRole))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads, and changes nothing.
    Viewer,
    /// Manages billing.
    Billing,
    /// Manages projects and keys.
    Developer,
    /// Manages the tenant.
    Admin,
    /// Owns the tenant.
    Owner,
}

impl Role {
    /// All roles, in ascending order of permissions.
    pub const ALL: [Role; 5] = [Role::Viewer, Role::Billing, Role::Developer, Role::Admin, Role::Owner];

    /// Returns its name in the API and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Billing => "billing",
            Role::Developer => "developer",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for a text that names no value of the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such {0}")]
pub struct UnknownName(pub &'static str);

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownName("role"))
    }
}

/// A person who manages a tenant, or all of them.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Its identifier.
    pub id: UserId,
    /// The tenant it belongs to, or `None` for an operator.
    pub tenant: Option<TenantId>,
    /// The address for logging in, in lower case when read back.
    pub email: String,
    /// Its display name.
    pub name: String,
    /// Its role in its tenant, which has no meaning for an operator.
    pub role: Role,
    /// The hash of its password in PHC string format; without it, the user cannot log in with a password.
    pub password: Option<String>,
    /// The time when the address was confirmed.
    pub confirmed_at: Option<Time>,
    /// The creation time.
    pub created_at: Time,
}

impl User {
    /// Reports whether the user is an operator, who belongs to no tenant and manages all of them.
    pub fn is_operator(&self) -> bool {
        self.tenant.is_none()
    }

    /// Returns the name of its role, or `operator`.
    pub fn role_name(&self) -> &'static str {
        if self.is_operator() { "operator" } else { self.role.as_str() }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("id", &self.id)
            .field("tenant", &self.tenant)
            .field("email", &self.email)
            .field("name", &self.name)
            .field("role", &self.role)
            .field("confirmed_at", &self.confirmed_at)
            .field("created_at", &self.created_at)
            .finish_non_exhaustive()
    }
}

impl TryFrom<Model> for User {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(User {
            id: UserId(row.id.as_u128()),
            tenant: row.tenant_id.map(|id| TenantId(id.as_u128())),
            email: row.email,
            name: row.name,
            role: row.role.parse().map_err(|_| unreadable("role", row.role))?,
            password: row.password,
            confirmed_at: row.confirmed_at.map(time),
            created_at: time(row.created_at),
        })
    }
}

pub(super) fn stored_email(email: &str) -> String {
    email.to_lowercase()
}

pub(super) async fn insert(transaction: &DatabaseTransaction, user: &User) -> Result<(), StoreError> {
    insert_all(transaction, std::slice::from_ref(user)).await
}

pub(super) async fn insert_all(transaction: &DatabaseTransaction, users: &[User]) -> Result<(), StoreError> {
    let rows = users.iter().map(|user| ActiveModel {
        id: Set(Uuid::from_u128(user.id.0)),
        tenant_id: Set(user.tenant.map(|id| Uuid::from_u128(id.0))),
        email: Set(stored_email(&user.email)),
        name: Set(user.name.clone()),
        role: Set(user.role.as_str().into()),
        password: Set(user.password.clone()),
        confirmed_at: Set(user.confirmed_at.map(moment)),
        created_at: Set(moment(user.created_at)),
        disabled_at: Set(None),
    });
    let done = Entity::insert_many(rows.collect::<Vec<_>>()).exec_without_returning(transaction).await;
    let unique = Some(("email", "e-mail address"));
    done.map(drop).map_err(|error| insert_error(error, "user", "tenant", unique))
}

/// Replaces one password hash by another and reports whether the old one was still stored.
async fn replace_password(
    transaction: &DatabaseTransaction,
    id: UserId,
    old: &str,
    new: &str,
) -> Result<bool, StoreError> {
    let update = Entity::update_many()
        .col_expr(Column::Password, Expr::value(new))
        .filter(Column::Id.eq(Uuid::from_u128(id.0)))
        .filter(Column::Password.eq(old));
    Ok(update.exec(transaction).await?.rows_affected > 0)
}

impl Store {
    /// Adds a user. Gateways are not notified.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if a user has this address, in any spelling; [`StoreError::NotFound`] if the tenant does
    /// not exist; [`StoreError::Unavailable`].
    pub fn create_user<'a>(&'a self, user: &'a User) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.write(async |transaction| insert(transaction, user).await).await })
    }

    /// Returns a user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn user(&self, id: UserId) -> BoxFuture<'_, Result<Option<User>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let found = Entity::find_by_id(Uuid::from_u128(id.0)).one(database).await?;
                found.map(User::try_from).transpose()
            })
            .await
        })
    }

    /// Returns the operators among these users.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn operators_among(&self, users: &HashSet<UserId>) -> Result<HashSet<UserId>, StoreError> {
        if users.is_empty() {
            return Ok(HashSet::new());
        }
        self.read(async |database| {
            let found = Entity::find()
                .select_only()
                .column(Column::Id)
                .filter(Column::Id.is_in(users.iter().map(|id| Uuid::from_u128(id.0))))
                .filter(Column::TenantId.is_null());
            let ids: Vec<Uuid> = found.into_tuple().all(database).await?;
            Ok(ids.into_iter().map(|id| UserId(id.as_u128())).collect())
        })
        .await
    }

    /// Returns the user with this address, in any spelling.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn user_by_email<'a>(&'a self, email: &'a str) -> BoxFuture<'a, Result<Option<User>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let found = Entity::find().filter(Column::Email.eq(stored_email(email)));
                found.one(database).await?.map(User::try_from).transpose()
            })
            .await
        })
    }

    /// Changes a user's name.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub async fn rename_user(&self, id: UserId, name: &str) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::Name, Expr::value(name))
                .filter(Column::Id.eq(Uuid::from_u128(id.0)));
            if update.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("user"));
            }
            Ok(())
        })
        .await
    }

    /// Sets a user's password hash, ends all its sessions, and invalidates its mailed tokens.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Unavailable`].
    pub fn set_password<'a>(&'a self, id: UserId, new: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.write(async |transaction| {
                let update = Entity::update_many()
                    .col_expr(Column::Password, Expr::value(new))
                    .filter(Column::Id.eq(Uuid::from_u128(id.0)));
                if update.exec(transaction).await?.rows_affected == 0 {
                    return Err(StoreError::NotFound("user"));
                }
                session_rows::end_all(transaction, id, None).await?;
                mail_tokens::withdraw(transaction, id).await
            })
            .await
        })
    }

    /// Replaces the hash `verified` by `new`, a hash of the same password, without other effects. Returns false, and
    /// does nothing, if the password has changed since or the user does not exist.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn renew_hash(&self, id: UserId, verified: &str, new: &str) -> Result<bool, StoreError> {
        self.transact(async |transaction| replace_password(transaction, id, verified, new).await).await
    }

    /// Replaces the hash `verified`, against which the old password was verified, by `new`, ends all sessions of the
    /// user except `keep`, and invalidates its mailed tokens. Returns false, and does nothing, if the password has
    /// changed since or the user does not exist.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn change_password(
        &self,
        id: UserId,
        verified: &str,
        new: &str,
        keep: Option<SessionId>,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            if !replace_password(transaction, id, verified, new).await? {
                return Ok(false);
            }
            session_rows::end_all(transaction, id, keep).await?;
            session_rows::end_access_tokens(transaction, id).await?;
            mail_tokens::withdraw(transaction, id).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }
}

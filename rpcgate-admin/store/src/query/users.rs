//! Users.

use super::audit::{Audit, append};
use super::id::{SessionId, UserId};
use super::mail_tokens;
use super::session_rows;
use super::value::insert_error;
use crate::entity::users::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use std::collections::HashSet;
use std::fmt;

pub use crate::entity::users::Role;

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

impl From<Model> for User {
    fn from(row: Model) -> Self {
        User {
            id: row.id,
            tenant: row.tenant_id,
            email: row.email,
            name: row.name,
            role: row.role,
            password: row.password,
            confirmed_at: row.confirmed_at,
            created_at: row.created_at,
        }
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
        id: Set(user.id),
        tenant_id: Set(user.tenant),
        email: Set(stored_email(&user.email)),
        name: Set(user.name.clone()),
        role: Set(user.role),
        password: Set(user.password.clone()),
        confirmed_at: Set(user.confirmed_at),
        created_at: Set(user.created_at),
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
        .filter(Column::Id.eq(id))
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
                let found = Entity::find_by_id(id).one(database).await?;
                Ok(found.map(User::from))
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
                .filter(Column::Id.is_in(users.iter().copied()))
                .filter(Column::TenantId.is_null());
            let ids: Vec<UserId> = found.into_tuple().all(database).await?;
            Ok(ids.into_iter().collect())
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
                Ok(found.one(database).await?.map(User::from))
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
            let update =
                Entity::update_many().col_expr(Column::Name, Expr::value(name)).filter(Column::Id.eq(id));
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
                    .filter(Column::Id.eq(id));
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

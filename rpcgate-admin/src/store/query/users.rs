//! Users.

use super::value::{insert_error, moment, time};
use crate::store::entity::users::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use std::fmt;
use uuid::Uuid;

/// A user's identifier, a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct UserId(pub u128);

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).fmt(f)
    }
}

/// A person who manages a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its identifier.
    pub id: UserId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// The address it logs in with; read back in lower case.
    pub email: String,
    /// When it was made.
    pub created_at: Time,
}

impl From<Model> for User {
    fn from(row: Model) -> Self {
        User {
            id: UserId(row.id.as_u128()),
            tenant: TenantId(row.tenant_id.as_u128()),
            email: row.email,
            created_at: time(row.created_at),
        }
    }
}

impl Store {
    /// Adds a user. No gateway hears of it.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if somebody has this address, however it is written; [`StoreError::NotFound`] if there
    /// is no such tenant; [`StoreError::Away`].
    pub async fn create_user(&self, user: &User) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let row = ActiveModel {
                id: Set(Uuid::from_u128(user.id.0)),
                tenant_id: Set(Uuid::from_u128(user.tenant.0)),
                email: Set(user.email.to_lowercase()),
                created_at: Set(moment(user.created_at)),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            let unique = Some(("email", "e-mail address"));
            done.map(drop).map_err(|error| insert_error(error, "user", "tenant", unique))
        })
        .await
    }

    /// The user with this address, however it is written.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn user_by_email(&self, email: &str) -> Result<Option<User>, StoreError> {
        self.read(async |database| {
            let found = Entity::find().filter(Column::Email.eq(email.to_lowercase()));
            Ok(found.one(database).await?.map(User::from))
        })
        .await
    }
}

//! Mailed tokens that set a password or change an address. A user has one for each purpose; a new one replaces the
//! old.

use super::digest::Digest;
use super::id::UserId;
use super::value::insert_error;
use crate::entity::mail_tokens::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, Select};

/// The purpose of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Setting a password.
    Reset,
    /// Changing the address of an account.
    EmailChange,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Purpose::Reset => "reset",
            Purpose::EmailChange => "email_change",
        }
    }
}

fn alive(purpose: Purpose, hash: &Digest, now: Time) -> Select<Entity> {
    Entity::find_by_id(hash.bytes())
        .filter(Column::Purpose.eq(purpose.name()))
        .filter(Column::ExpiresAt.gt(now))
}

/// Stores a user's token, replacing its previous one for this purpose; `email` is the new address.
pub(super) async fn put(
    transaction: &DatabaseTransaction,
    user: UserId,
    (purpose, email): (Purpose, Option<&str>),
    hash: &Digest,
    expires_at: Time,
) -> Result<(), StoreError> {
    let before = Entity::delete_many().filter(Column::UserId.eq(user));
    before.filter(Column::Purpose.eq(purpose.name())).exec(transaction).await?;
    let row = ActiveModel {
        hash: Set(hash.bytes()),
        user_id: Set(user),
        purpose: Set(purpose.name().into()),
        email: Set(email.map(str::to_owned)),
        expires_at: Set(expires_at),
    };
    let done = Entity::insert(row).exec_without_returning(transaction).await;
    done.map(drop).map_err(|error| insert_error(error, "token", "user", None))
}

/// Consumes a token and returns its user and the new address, or `None` if the token does not exist or has expired.
pub(super) async fn take(
    transaction: &DatabaseTransaction,
    purpose: Purpose,
    hash: &Digest,
    now: Time,
) -> Result<Option<(UserId, Option<String>)>, StoreError> {
    let found = alive(purpose, hash, now).one(transaction).await?;
    let Some(Model { user_id, email, .. }) = found else { return Ok(None) };
    let taken = Entity::delete_by_id(hash.bytes()).exec(transaction).await?.rows_affected > 0;
    Ok(taken.then_some((user_id, email)))
}

/// Invalidates all tokens of a user: another account may have requested them before the password or address changed.
pub(super) async fn withdraw(transaction: &DatabaseTransaction, user: UserId) -> Result<(), StoreError> {
    let its = Entity::delete_many().filter(Column::UserId.eq(user));
    its.exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Reports whether an unexpired token for this purpose has this digest.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn is_mailed(&self, purpose: Purpose, hash: &Digest, now: Time) -> Result<bool, StoreError> {
        self.read(async |database| Ok(alive(purpose, hash, now).count(database).await? > 0)).await
    }
}

//! Tokens in mails that set a password or change an address. A user has one for each purpose: the next takes its place.

use super::digest::Digest;
use super::id::UserId;
use super::value::{insert_error, moment};
use crate::store::entity::mail_tokens::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, Select};
use uuid::Uuid;

/// What a token is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It sets a password.
    Reset,
    /// It gives an account another address.
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

/// The token with this digest, if it is for that and has not expired.
fn alive(purpose: Purpose, hash: &Digest, now: Time) -> Select<Entity> {
    Entity::find_by_id(hash.bytes())
        .filter(Column::Purpose.eq(purpose.name()))
        .filter(Column::ExpiresAt.gt(moment(now)))
}

/// Gives a user a token in the place of the one that it may have; `email` is the address to be.
pub(super) async fn put(
    transaction: &DatabaseTransaction,
    user: UserId,
    (purpose, email): (Purpose, Option<&str>),
    hash: &Digest,
    expires_at: Time,
) -> Result<(), StoreError> {
    let user = Uuid::from_u128(user.0);
    let before = Entity::delete_many().filter(Column::UserId.eq(user));
    before.filter(Column::Purpose.eq(purpose.name())).exec(transaction).await?;
    let row = ActiveModel {
        hash: Set(hash.bytes()),
        user_id: Set(user),
        purpose: Set(purpose.name().into()),
        email: Set(email.map(str::to_owned)),
        expires_at: Set(moment(expires_at)),
    };
    let done = Entity::insert(row).exec_without_returning(transaction).await;
    done.map(drop).map_err(|error| insert_error(error, "token", "user", None))
}

/// Uses a token up: whose it was, and the address to be; none if there is no such token, or not any more.
pub(super) async fn take(
    transaction: &DatabaseTransaction,
    purpose: Purpose,
    hash: &Digest,
    now: Time,
) -> Result<Option<(Uuid, Option<String>)>, StoreError> {
    let found = alive(purpose, hash, now).one(transaction).await?;
    let Some(Model { user_id, email, .. }) = found else { return Ok(None) };
    let taken = Entity::delete_by_id(hash.bytes()).exec(transaction).await?.rows_affected > 0;
    Ok(taken.then_some((user_id, email)))
}

/// Makes all tokens of a user worthless: what was asked for before its password or address was changed may have been
/// asked for by somebody else.
pub(super) async fn withdraw(transaction: &DatabaseTransaction, user: UserId) -> Result<(), StoreError> {
    let its = Entity::delete_many().filter(Column::UserId.eq(Uuid::from_u128(user.0)));
    its.exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Whether there is a token with this digest that is for that and has not expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn is_mailed(&self, purpose: Purpose, hash: &Digest, now: Time) -> Result<bool, StoreError> {
        self.read(async |database| Ok(alive(purpose, hash, now).count(database).await? > 0)).await
    }
}

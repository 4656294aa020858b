//! Tokens that confirm an address.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::id::UserId;
use super::mail_tokens;
use super::session_rows;
use super::users::User;
use super::value::insert_error;
use crate::entity::confirmations::{ActiveModel, Column, Entity};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter};

pub(super) async fn put(
    transaction: &DatabaseTransaction,
    user: UserId,
    hash: &Digest,
    expires_at: Time,
) -> Result<(), StoreError> {
    put_all(transaction, &[(user, *hash)], expires_at).await
}

pub(super) async fn put_all(
    transaction: &DatabaseTransaction,
    tokens: &[(UserId, Digest)],
    expires_at: Time,
) -> Result<(), StoreError> {
    let rows = tokens.iter().map(|(user, hash)| ActiveModel {
        user_id: Set(*user),
        hash: Set(hash.bytes()),
        expires_at: Set(expires_at),
    });
    let upsert =
        OnConflict::column(Column::UserId).update_columns([Column::Hash, Column::ExpiresAt]).to_owned();
    let rows = Entity::insert_many(rows.collect::<Vec<_>>()).on_conflict(upsert);
    let done = rows.exec_without_returning(transaction).await;
    done.map(drop).map_err(|error| insert_error(error, "confirmation", "user", Some(("hash", "text"))))
}

impl Store {
    /// Stores another token for a user, whose digest is `hash`, which invalidates the previous one. Returns false if
    /// the address is already confirmed or the user does not exist.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if a token with this digest exists, [`StoreError::Unavailable`].
    pub async fn renew_confirmation(
        &self,
        user: UserId,
        hash: &Digest,
        expires_at: Time,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let waits = users::Entity::find_by_id(user)
                .filter(users::Column::ConfirmedAt.is_null())
                .count(transaction);
            if waits.await? == 0 {
                return Ok(false);
            }
            put(transaction, user, hash, expires_at).await?;
            Ok(true)
        })
        .await
    }

    /// Returns the user whose address the token with this digest would confirm, or `None` if the token does not exist
    /// or has expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn confirmation(&self, hash: &Digest, now: Time) -> Result<Option<UserId>, StoreError> {
        self.read(async |database| {
            let alive =
                Entity::find().filter(Column::Hash.eq(hash.bytes())).filter(Column::ExpiresAt.gt(now));
            Ok(alive.one(database).await?.map(|found| found.user_id))
        })
        .await
    }

    /// Confirms the address of the user whose token has this digest, and consumes the token. Adds `entry` to the audit
    /// with that user and its tenant filled in. A given `password` replaces the current one and ends all sessions.
    /// Returns `None` if the token does not exist or has expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn confirm(
        &self,
        hash: &Digest,
        password: Option<&str>,
        entry: &Audit,
        now: Time,
    ) -> Result<Option<UserId>, StoreError> {
        let is_it = Column::Hash.eq(hash.bytes());
        let alive = Entity::find().filter(is_it.clone()).filter(Column::ExpiresAt.gt(now));
        // Anyone can send any token, so an unknown one must not take a slot in the writers' queue.
        if self.confirmation(hash, now).await?.is_none() {
            return Ok(None);
        }
        self.transact(async |transaction| {
            let found = alive.clone().one(transaction).await?;
            let Some(found) = found else { return Ok(None) };
            if Entity::delete_many().filter(is_it.clone()).exec(transaction).await?.rows_affected == 0 {
                return Ok(None);
            }
            let update = users::Entity::update_many()
                .col_expr(users::Column::ConfirmedAt, Expr::value(now))
                .filter(users::Column::Id.eq(found.user_id))
                .filter(users::Column::ConfirmedAt.is_null());
            update.exec(transaction).await?;
            if let Some(password) = password {
                let update = users::Entity::update_many()
                    .col_expr(users::Column::Password, Expr::value(password))
                    .filter(users::Column::Id.eq(found.user_id));
                update.exec(transaction).await?;
                let user = found.user_id;
                session_rows::end_all(transaction, user, None).await?;
                mail_tokens::withdraw(transaction, user).await?;
            }
            let user = users::Entity::find_by_id(found.user_id).one(transaction).await?;
            let user = User::from(user.ok_or(StoreError::NotFound("user"))?);
            append(transaction, &Audit { user: Some(user.id), tenant: user.tenant, ..entry.clone() }).await?;
            Ok(Some(user.id))
        })
        .await
    }
}

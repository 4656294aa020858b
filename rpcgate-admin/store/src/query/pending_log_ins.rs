//! Log-ins with a correct password that wait for the second factor.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::factors::{FactorUse, consume};
use super::id::UserId;
use super::sessions::{self, Session};
use super::users::User;
use super::value::insert_error;
use crate::entity::pending_log_ins::{ActiveModel, Column, Entity};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use std::time::Duration;

/// The time that a log-in waits for its second factor.
pub const PENDING_LOG_IN_LIFE: Duration = Duration::from_secs(300);

/// The number of factors that may be tried for one log-in.
pub const FACTOR_TRIES: u64 = 5;

/// The number of log-ins of one user that may wait at once; a new one removes the oldest.
pub const MAX_PENDING_LOG_INS: u64 = 10;

pub(super) async fn end_all(transaction: &DatabaseTransaction, user: UserId) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::UserId.eq(user)).exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Stores the token of a log-in that waits for a second factor. `verified` is the hash against which the password
    /// was verified. Returns false, and does nothing, if the hash has changed since, or the account was disabled.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if a token with this digest exists, [`StoreError::Unavailable`].
    pub async fn begin_log_in(
        &self,
        user: UserId,
        token: &Digest,
        verified: &str,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        let now = entry.at;
        self.transact(async |transaction| {
            if sessions::log_in_of(transaction, user, &Digest::of(verified)).await?.is_none() {
                return Ok(false);
            }
            let row = ActiveModel {
                hash: Set(token.bytes()),
                user_id: Set(user),
                password: Set(Digest::of(verified).bytes()),
                tries: Set(0),
                created_at: Set(now),
                expires_at: Set(now.plus(PENDING_LOG_IN_LIFE)),
            };
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "log-in", "user", Some(("hash", "token"))))?;
            let surplus = Entity::find()
                .select_only()
                .column(Column::Hash)
                .filter(Column::UserId.eq(user))
                .order_by_desc(Column::CreatedAt)
                .order_by_desc(Column::Hash)
                .offset(MAX_PENDING_LOG_INS)
                .limit(MAX_PENDING_LOG_INS);
            let surplus: Vec<Vec<u8>> = surplus.into_tuple().all(transaction).await?;
            Entity::delete_many().filter(Column::Hash.is_in(surplus)).exec(transaction).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }

    /// Returns the user of this log-in, or `None` if it was finished, has expired, or has no tries left.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn pending_log_in(&self, token: &Digest, now: Time) -> Result<Option<User>, StoreError> {
        self.read(async |database| {
            let found = alive(token, now).find_also_related(users::Entity).one(database).await?;
            Ok(found.and_then(|(_, user)| user).map(User::from))
        })
        .await
    }

    /// Counts a try of the second factor of a log-in, before the factor is verified. Returns false if no try is left.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn count_factor_try(&self, token: &Digest, now: Time) -> Result<bool, StoreError> {
        // Anyone can send any token, so an unknown one must not take a slot in the writers' queue.
        let known = async |database: &DatabaseConnection| Ok(alive(token, now).count(database).await?);
        if self.read(known).await? == 0 {
            return Ok(false);
        }
        self.transact(async |transaction| {
            let counted = Entity::update_many()
                .col_expr(Column::Tries, Expr::col(Column::Tries).add(1))
                .filter(Column::Hash.eq(token.bytes()))
                .filter(Column::ExpiresAt.gt(now))
                .filter(Column::Tries.lt(FACTOR_TRIES as i64));
            Ok(counted.exec(transaction).await?.rows_affected > 0)
        })
        .await
    }

    /// Consumes the factor and the log-in with this token, and opens the session with its first refresh token. Returns
    /// false, and does nothing, if one of the two was used or has expired, if the password has changed since the log-in
    /// began, or if the account was disabled.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::Unavailable`].
    pub async fn finish_log_in(
        &self,
        token: &Digest,
        used: &FactorUse,
        session: &Session,
        refresh: &Digest,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let found = Entity::find_by_id(token.bytes())
                .filter(Column::ExpiresAt.gt(entry.at))
                .filter(Column::UserId.eq(session.user));
            let Some(pending) = found.one(transaction).await? else { return Ok(false) };
            let Ok(password) = <[u8; 32]>::try_from(pending.password.as_slice()) else { return Ok(false) };
            if sessions::log_in_of(transaction, pending.user_id, &Digest(password)).await?.is_none()
                || Entity::delete_by_id(token.bytes()).exec(transaction).await?.rows_affected == 0
                || !consume(transaction, pending.user_id, used).await?
            {
                return Err(StoreError::NotFound("log-in"));
            }
            sessions::insert(transaction, session, refresh).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
        .or_else(|error| match error {
            // The error rolled the transaction back.
            StoreError::NotFound(_) => Ok(false),
            error => Err(error),
        })
    }
}

fn alive(token: &Digest, now: Time) -> sea_orm::Select<Entity> {
    Entity::find_by_id(token.bytes())
        .filter(Column::ExpiresAt.gt(now))
        .filter(Column::Tries.lt(FACTOR_TRIES as i64))
}

//! Refresh tokens. Each is used once. A token that is used again ends its session: two parties have it, and one of
//! them, unknown which, stole it.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::session_rows::{self, insert_refresh};
use super::sessions::{Session, live};
use super::users::User;
use crate::entity::refreshes::{Column, Entity};
use crate::entity::sessions;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter};
use std::time::Duration;

/// The number of tokens kept for one session, including used ones. A session with more ends: if its oldest tokens were
/// forgotten instead, a thief could flush the evidence of a reuse.
const MAX_TOKENS: u64 = 10_000;

/// The lifetimes of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionLifetimes {
    /// The lifetime after the last renewal.
    pub idle: Duration,
    /// The total lifetime, however often it is renewed.
    pub absolute: Duration,
}

/// The outcome of using a refresh token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rotation {
    /// A new token replaces it, and the session continues.
    Done(Session, User),
    /// It was used before, so the session of this user has ended.
    Reused(User),
    /// It is unknown or expired, or its session has ended.
    Unknown,
}

impl Store {
    /// Returns the session of a refresh token and its user, or `None` if the session has ended or the token has
    /// expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn session_by_refresh(
        &self,
        token: &Digest,
        now: Time,
    ) -> Result<Option<(Session, User)>, StoreError> {
        self.read(async |database| {
            let is_alive = Column::ExpiresAt.gt(now);
            let found = Entity::find_by_id(token.bytes()).filter(is_alive).one(database).await?;
            match found {
                Some(refresh) => live(database, refresh.session_id, now).await,
                None => Ok(None),
            }
        })
        .await
    }

    /// Consumes the refresh token stored under `old` and stores the next one under `new`. The new token and the session
    /// expire with the earlier of the two `lifetimes`. If `old` was used before, adds `reused` to the audit, with the
    /// user and tenant filled in.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if a token is stored under `new`, [`StoreError::Unavailable`].
    pub async fn rotate(
        &self,
        old: &Digest,
        new: &Digest,
        lifetimes: SessionLifetimes,
        reused: &Audit,
        now: Time,
    ) -> Result<Rotation, StoreError> {
        let is_alive = Column::ExpiresAt.gt(now);
        // Anyone can send any token, so an unknown one must not take a slot in the writers' queue.
        let known = async |database: &DatabaseConnection| {
            Ok(Entity::find_by_id(old.bytes()).filter(is_alive.clone()).count(database).await?)
        };
        if self.read(known).await? == 0 {
            return Ok(Rotation::Unknown);
        }
        self.transact(async |transaction| {
            let claim = Entity::update_many()
                .col_expr(Column::Used, Expr::value(true))
                .filter(Column::Hash.eq(old.bytes()))
                .filter(Column::Used.eq(false))
                .filter(is_alive.clone());
            let is_claimed = claim.exec(transaction).await?.rows_affected > 0;
            let found = Entity::find_by_id(old.bytes()).filter(is_alive.clone()).one(transaction).await?;
            let Some(refresh) = found else { return Ok(Rotation::Unknown) };
            let Some((session, user)) = live(transaction, refresh.session_id, now).await? else {
                return Ok(Rotation::Unknown);
            };
            if !is_claimed {
                session_rows::end(transaction, refresh.session_id).await?;
                let entry = Audit { user: Some(user.id), tenant: user.tenant, ..reused.clone() };
                append(transaction, &entry).await?;
                return Ok(Rotation::Reused(user));
            }
            let expires_at = now.plus(lifetimes.idle).min(session.created_at.plus(lifetimes.absolute));
            if expires_at <= now {
                session_rows::end(transaction, refresh.session_id).await?;
                return Ok(Rotation::Unknown);
            }
            let of_session = Column::SessionId.eq(refresh.session_id);
            let expired = Column::ExpiresAt.lte(now);
            Entity::delete_many().filter(of_session.clone()).filter(expired).exec(transaction).await?;
            if Entity::find().filter(of_session).count(transaction).await? >= MAX_TOKENS {
                session_rows::end(transaction, refresh.session_id).await?;
                return Ok(Rotation::Unknown);
            }
            insert_refresh(transaction, session.id, new, expires_at).await?;
            let seen = sessions::Entity::update_many()
                .col_expr(sessions::Column::SeenAt, Expr::value(now))
                .col_expr(sessions::Column::ExpiresAt, Expr::value(expires_at))
                .filter(sessions::Column::Id.eq(refresh.session_id));
            seen.exec(transaction).await?;
            Ok(Rotation::Done(Session { seen_at: now, expires_at, ..session }, user))
        })
        .await
    }
}

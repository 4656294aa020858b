//! Refresh tokens. Each is used once, and one that is used again ends its session: two have it then, and nobody can tell
//! which of them is the thief.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::session_rows::{self, insert_refresh};
use super::sessions::{Session, live};
use super::users::User;
use super::value::moment;
use crate::store::entity::refreshes::{Column, Entity};
use crate::store::entity::sessions;
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter};
use std::time::Duration;

/// Tokens that are kept for one session, the used ones too. To forget the oldest instead of ending the session would let
/// a thief use up the evidence.
const MOST: u64 = 10_000;

/// How long a session lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lives {
    /// From its last renewal.
    pub unused: Duration,
    /// From its beginning, however often it is renewed.
    pub whole: Duration,
}

/// What became of a refresh token.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made; nobody keeps many")]
pub enum Rotation {
    /// There is a new one in its place, and the session lives on.
    Done(Session, User),
    /// It was used before. The session has ended.
    Reused,
    /// It never was one, or has expired, or its session has ended.
    Unknown,
}

impl Store {
    /// The session that a refresh token belongs to, and its user; none if the session has ended, or the token's time is
    /// over.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn session_by_refresh(
        &self,
        token: &Digest,
        now: Time,
    ) -> Result<Option<(Session, User)>, StoreError> {
        self.read(async |database| {
            let is_alive = Column::ExpiresAt.gt(moment(now));
            let found = Entity::find_by_id(token.bytes()).filter(is_alive).one(database).await?;
            match found {
                Some(refresh) => live(database, refresh.session_id, now).await,
                None => Ok(None),
            }
        })
        .await
    }

    /// Uses up the refresh token that is stored under `old`: the one under `new` follows it, and both it and the session
    /// end when one of their `lives` does. `reused` is left in the audit, with its user and tenant filled in, if `old` was
    /// used before.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if there is a token under `new`, [`StoreError::Unavailable`].
    pub async fn rotate(
        &self,
        old: &Digest,
        new: &Digest,
        lives: Lives,
        reused: &Audit,
        now: Time,
    ) -> Result<Rotation, StoreError> {
        let is_alive = Column::ExpiresAt.gt(moment(now));
        // Anybody may send anything: what was never a token costs no place in the row of those who write.
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
                return Ok(Rotation::Reused);
            }
            let expires_at = now.plus(lives.unused).min(session.created_at.plus(lives.whole));
            if expires_at <= now {
                session_rows::end(transaction, refresh.session_id).await?;
                return Ok(Rotation::Unknown);
            }
            let of_session = Column::SessionId.eq(refresh.session_id);
            let expired = Column::ExpiresAt.lte(moment(now));
            Entity::delete_many().filter(of_session.clone()).filter(expired).exec(transaction).await?;
            if Entity::find().filter(of_session).count(transaction).await? >= MOST {
                session_rows::end(transaction, refresh.session_id).await?;
                return Ok(Rotation::Unknown);
            }
            insert_refresh(transaction, session.id, new, expires_at).await?;
            let seen = sessions::Entity::update_many()
                .col_expr(sessions::Column::SeenAt, Expr::value(moment(now)))
                .col_expr(sessions::Column::ExpiresAt, Expr::value(moment(expires_at)))
                .filter(sessions::Column::Id.eq(refresh.session_id));
            seen.exec(transaction).await?;
            Ok(Rotation::Done(Session { seen_at: now, expires_at, ..session }, user))
        })
        .await
    }
}

//! Log-in sessions.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::factors;
use super::id::{SessionId, UserId};
use super::session_rows::{end_all, insert_refresh};
use super::users::User;
use super::value::insert_error;
use crate::entity::sessions::{Column, Entity};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

pub use crate::entity::sessions::Model as Session;

/// The number of sessions that a user may have at once; a new one removes the oldest.
const MAX_SESSIONS: u64 = 100;

/// Fills in the last address of a session that was opened before that was stored.
fn with_address(mut session: Session) -> Session {
    if session.seen_address.is_empty() {
        session.seen_address.clone_from(&session.address);
    }
    session
}

/// Returns the user, if it is not disabled and its stored password hash has the digest `verified`.
pub(super) async fn log_in_of(
    transaction: &DatabaseTransaction,
    user: UserId,
    verified: &Digest,
) -> Result<Option<users::Model>, StoreError> {
    let is_open = users::Column::DisabledAt.is_null();
    let found = users::Entity::find_by_id(user).filter(is_open).one(transaction).await?;
    let is_the_same = |user: &users::Model| {
        user.password.as_deref().is_some_and(|password| Digest::of(password) == *verified)
    };
    Ok(found.filter(is_the_same))
}

/// Inserts a session with its first refresh token, and ends the user's oldest excess sessions.
pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    session: &Session,
    refresh: &Digest,
) -> Result<(), StoreError> {
    let user = session.user;
    let row = session.clone().into_active_model();
    let done = Entity::insert(row).exec_without_returning(transaction).await;
    done.map_err(|error| insert_error(error, "session", "user", None))?;
    insert_refresh(transaction, session.id, refresh, session.expires_at).await?;
    let surplus = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::UserId.eq(user))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .offset(MAX_SESSIONS)
        .limit(MAX_SESSIONS);
    let surplus: Vec<Uuid> = surplus.into_tuple().all(transaction).await?;
    Entity::delete_many().filter(Column::Id.is_in(surplus)).exec(transaction).await?;
    Ok(())
}

pub(super) async fn live(
    database: &impl ConnectionTrait,
    id: SessionId,
    now: Time,
) -> Result<Option<(Session, User)>, StoreError> {
    let found = Entity::find_by_id(id).filter(Column::ExpiresAt.gt(now));
    match found.find_also_related(users::Entity).one(database).await? {
        Some((session, Some(user))) => Ok(Some((with_address(session), user.into()))),
        _ => Ok(None),
    }
}

impl Store {
    /// Opens a session by a password alone, with a first refresh token of the same lifetime. `verified` is the hash
    /// against which the password was verified. Returns false if the hash has changed since, the account was disabled,
    /// or the user has added a second factor, so that a concurrent log-in opens no session.
    ///
    /// # Errors
    /// [`StoreError::Taken`], [`StoreError::Unavailable`].
    pub async fn open_session(
        &self,
        session: &Session,
        refresh: &Digest,
        verified: &str,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        let user = session.user;
        self.transact(async |transaction| {
            if log_in_of(transaction, user, &Digest::of(verified)).await?.is_none()
                || factors::of_user(transaction, user).await?.any()
            {
                return Ok(false);
            }
            insert(transaction, session, refresh).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }

    /// Returns a session and its user, or `None` if the session has ended.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn session(&self, id: SessionId, now: Time) -> Result<Option<(Session, User)>, StoreError> {
        self.read(async |database| live(database, id, now).await).await
    }

    /// Records that the user of a session has given the password in it, and adds `entry` to the audit. Does nothing if
    /// the session has ended.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn note_proof(
        &self,
        (user, session): (UserId, SessionId),
        entry: &Audit,
    ) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::ProvedAt, Expr::value(entry.at))
                .filter(Column::Id.eq(session))
                .filter(Column::UserId.eq(user));
            update.exec(transaction).await?;
            append(transaction, entry).await
        })
        .await
    }

    /// Returns a user's sessions, the newest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn sessions(&self, user: UserId, now: Time) -> Result<Vec<Session>, StoreError> {
        self.read(async |database| {
            let newest = Entity::find()
                .filter(Column::UserId.eq(user))
                .filter(Column::ExpiresAt.gt(now))
                .order_by_desc(Column::CreatedAt)
                .order_by_desc(Column::Id);
            Ok(newest.all(database).await?.into_iter().map(with_address).collect())
        })
        .await
    }

    /// Records that a session was used from `address` at `now`, unless it was used from there after `before`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn touch_session(
        &self,
        id: SessionId,
        address: &str,
        before: Time,
        now: Time,
    ) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let is_news =
                Condition::any().add(Column::SeenAt.lte(before)).add(Column::SeenAddress.ne(address));
            let update = Entity::update_many()
                .col_expr(Column::SeenAt, Expr::value(now))
                .col_expr(Column::SeenAddress, Expr::value(address))
                .filter(Column::Id.eq(id))
                .filter(is_news);
            update.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Ends a session of a user.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session has ended or is another user's; [`StoreError::Unavailable`].
    pub async fn end_session(&self, user: UserId, id: SessionId) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let its = Entity::delete_many().filter(Column::Id.eq(id)).filter(Column::UserId.eq(user));
            if its.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("session"));
            }
            Ok(())
        })
        .await
    }

    /// Ends all sessions of a user, optionally except one, and returns their number.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn end_sessions(&self, user: UserId, except: Option<SessionId>) -> Result<u64, StoreError> {
        self.write(async |transaction| end_all(transaction, user, except).await).await
    }
}

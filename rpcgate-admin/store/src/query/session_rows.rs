//! Writes of sessions, refresh tokens and personal access tokens that several queries share.

use super::digest::Digest;
use super::id::{SessionId, UserId};
use super::value::insert_error;
use crate::StoreError;
use crate::entity::sessions::{Column, Entity};
use crate::entity::{access_tokens, refreshes};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};

pub(super) async fn insert_refresh(
    transaction: &DatabaseTransaction,
    session: SessionId,
    hash: &Digest,
    expires_at: Time,
) -> Result<(), StoreError> {
    let row = refreshes::ActiveModel {
        hash: Set(hash.bytes()),
        session_id: Set(session),
        expires_at: Set(expires_at),
        used: Set(false),
    };
    let done = refreshes::Entity::insert(row).exec_without_returning(transaction).await;
    done.map(drop).map_err(|error| insert_error(error, "refresh token", "session", Some(("hash", "text"))))
}

pub(super) async fn end(transaction: &DatabaseTransaction, id: SessionId) -> Result<bool, StoreError> {
    Ok(Entity::delete_by_id(id).exec(transaction).await?.rows_affected > 0)
}

pub(super) async fn end_access_tokens(
    transaction: &DatabaseTransaction,
    user: UserId,
) -> Result<(), StoreError> {
    let its = access_tokens::Column::UserId.eq(user);
    access_tokens::Entity::delete_many().filter(its).exec(transaction).await?;
    Ok(())
}

pub(super) async fn end_all(
    transaction: &DatabaseTransaction,
    user: UserId,
    keep: Option<SessionId>,
) -> Result<u64, StoreError> {
    let mut all = Entity::delete_many().filter(Column::UserId.eq(user));
    if let Some(keep) = keep {
        all = all.filter(Column::Id.ne(keep));
    }
    Ok(all.exec(transaction).await?.rows_affected)
}

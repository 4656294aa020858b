//! Writes of sessions, refresh tokens and personal access tokens that several queries share.

use super::digest::Digest;
use super::id::{SessionId, UserId};
use super::value::{insert_error, moment};
use crate::StoreError;
use crate::entity::sessions::{Column, Entity};
use crate::entity::{access_tokens, refreshes};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use uuid::Uuid;

pub(super) async fn insert_refresh(
    transaction: &DatabaseTransaction,
    session: SessionId,
    hash: &Digest,
    expires_at: Time,
) -> Result<(), StoreError> {
    let row = refreshes::ActiveModel {
        hash: Set(hash.bytes()),
        session_id: Set(Uuid::from_u128(session.0)),
        expires_at: Set(moment(expires_at)),
        used: Set(false),
    };
    let done = refreshes::Entity::insert(row).exec_without_returning(transaction).await;
    done.map(drop).map_err(|error| insert_error(error, "refresh token", "session", Some(("hash", "text"))))
}

pub(super) async fn end(transaction: &DatabaseTransaction, id: Uuid) -> Result<bool, StoreError> {
    Ok(Entity::delete_by_id(id).exec(transaction).await?.rows_affected > 0)
}

pub(super) async fn end_access_tokens(
    transaction: &DatabaseTransaction,
    user: UserId,
) -> Result<(), StoreError> {
    let its = access_tokens::Column::UserId.eq(Uuid::from_u128(user.0));
    access_tokens::Entity::delete_many().filter(its).exec(transaction).await?;
    Ok(())
}

pub(super) async fn end_all(
    transaction: &DatabaseTransaction,
    user: UserId,
    keep: Option<SessionId>,
) -> Result<u64, StoreError> {
    let mut all = Entity::delete_many().filter(Column::UserId.eq(Uuid::from_u128(user.0)));
    if let Some(keep) = keep {
        all = all.filter(Column::Id.ne(Uuid::from_u128(keep.0)));
    }
    Ok(all.exec(transaction).await?.rows_affected)
}

//! Passwords that are set by whoever reads the mails of an address.

use super::audit::{Audit, append, feign};
use super::digest::Digest;
use super::id::UserId;
use super::mail_tokens::{self, Purpose};
use super::users::{User, stored_email};
use super::value::moment;
use super::{attempts, session_rows};
use crate::store::entity::confirmations;
use crate::store::entity::users::{Column, Entity};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

impl Store {
    /// Gives the user with this address, however it is written, a token to set a password with, in the place of the one
    /// before: whether there is such a user, and operators have not disabled it. `entry` is left in the audit with that
    /// user and its tenant filled in. Where there is none, as much is done and nothing kept.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if there is a token with this digest, [`StoreError::Unavailable`].
    pub async fn put_reset(
        &self,
        email: &str,
        hash: &Digest,
        expires_at: Time,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let found = Entity::find()
                .filter(Column::Email.eq(stored_email(email)))
                .filter(Column::DisabledAt.is_null());
            let Some(found) = found.one(transaction).await? else {
                feign(transaction, entry).await?;
                return Ok(false);
            };
            let user = User::try_from(found)?;
            mail_tokens::put(transaction, user.id, (Purpose::Reset, None), hash, expires_at).await?;
            let subject = user.id.to_string();
            let entry = Audit { user: Some(user.id), tenant: user.tenant, subject, ..entry.clone() };
            append(transaction, &entry).await?;
            Ok(true)
        })
        .await
    }

    /// Gives the user whose token has this digest the password with the hash `new`, and uses the token up. Its address is
    /// confirmed by that, a lock of it ends, and so do all its sessions. `entry` is left in the audit with that user and
    /// its tenant filled in. None if there is no such token, or not any more, or operators have disabled the user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn reset_password(
        &self,
        hash: &Digest,
        new: &str,
        entry: &Audit,
        now: Time,
    ) -> Result<Option<UserId>, StoreError> {
        self.transact(async |transaction| {
            let taken = mail_tokens::take(transaction, Purpose::Reset, hash, now).await?;
            let Some((id, _)) = taken else { return Ok(None) };
            let update = Entity::update_many()
                .col_expr(Column::Password, Expr::value(new))
                .filter(Column::Id.eq(id))
                .filter(Column::DisabledAt.is_null());
            if update.exec(transaction).await?.rows_affected == 0 {
                return Ok(None);
            }
            let confirm = Entity::update_many()
                .col_expr(Column::ConfirmedAt, Expr::value(moment(now)))
                .filter(Column::Id.eq(id))
                .filter(Column::ConfirmedAt.is_null());
            confirm.exec(transaction).await?;
            confirmations::Entity::delete_by_id(id).exec(transaction).await?;
            let user = Entity::find_by_id(id).one(transaction).await?;
            let user = User::try_from(user.ok_or(StoreError::NotFound("user"))?)?;
            mail_tokens::withdraw(transaction, user.id).await?;
            session_rows::end_all(transaction, user.id, None).await?;
            attempts::unlock(transaction, &user.email).await?;
            let subject = user.id.to_string();
            let entry = Audit { user: Some(user.id), tenant: user.tenant, subject, ..entry.clone() };
            append(transaction, &entry).await?;
            Ok(Some(user.id))
        })
        .await
    }
}

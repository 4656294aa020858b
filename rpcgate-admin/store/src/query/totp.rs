//! Authenticator apps of users.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::factors::{FactorUse, LogInMethod, added, consume, removed};
use super::id::{SessionId, UserId};
use super::recovery_codes;
use crate::entity::totp::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use std::fmt;

/// The authenticator app of a user.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTotp {
    /// Its secret, encrypted.
    pub sealed: Vec<u8>,
    /// The time when a first code was given; until then it is no factor.
    pub activated_at: Option<Time>,
}

impl fmt::Debug for StoredTotp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTotp").field("activated_at", &self.activated_at).finish_non_exhaustive()
    }
}

impl From<Model> for StoredTotp {
    fn from(row: Model) -> Self {
        StoredTotp { sealed: row.sealed, activated_at: row.activated_at }
    }
}

impl Store {
    /// Returns the authenticator app of a user.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn totp(&self, user: UserId) -> Result<Option<StoredTotp>, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(user).one(database).await?;
            Ok(found.map(StoredTotp::from))
        })
        .await
    }

    /// Stores the secret of an app that is not activated yet, replacing an earlier one that was not activated. Returns
    /// false, and does nothing, if an app is activated.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn start_totp(
        &self,
        user: UserId,
        sealed: &[u8],
        entry: &Audit,
        now: Time,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let offers = Entity::delete_many().filter(Column::UserId.eq(user));
            offers.filter(Column::ActivatedAt.is_null()).exec(transaction).await?;
            if Entity::find_by_id(user).one(transaction).await?.is_some() {
                return Ok(false);
            }
            let row = ActiveModel {
                user_id: Set(user),
                sealed: Set(sealed.to_vec()),
                last_step: Set(0),
                activated_at: Set(None),
                created_at: Set(now),
            };
            Entity::insert(row).exec_without_returning(transaction).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }

    /// Activates the app with this secret by a code of `step`, which is consumed, and stores new recovery codes. All
    /// sessions of the user end except `keep`. Returns false, and does nothing, if another secret was stored meanwhile,
    /// or the app is already activated.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn activate_totp(
        &self,
        (user, keep): (UserId, SessionId),
        sealed: &[u8],
        step: u64,
        codes: &[Digest],
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let activation = Entity::update_many()
                .col_expr(Column::ActivatedAt, Expr::value(entry.at))
                .col_expr(Column::LastStep, Expr::value(i64::try_from(step).unwrap_or(i64::MAX)))
                .filter(Column::UserId.eq(user))
                .filter(Column::Sealed.eq(sealed))
                .filter(Column::ActivatedAt.is_null());
            if activation.exec(transaction).await?.rows_affected == 0 {
                return Ok(false);
            }
            recovery_codes::replace(transaction, user, codes).await?;
            added(transaction, (user, keep), LogInMethod::PasswordAndCode, entry.at).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }

    /// Consumes a factor and removes the authenticator app. All sessions of the user end except `keep`. Returns false,
    /// and does nothing, if the factor was used before, or no app is activated.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn remove_totp(
        &self,
        (user, keep): (UserId, SessionId),
        used: &FactorUse,
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            let app = Entity::find_by_id(user).filter(Column::ActivatedAt.is_not_null());
            if app.one(transaction).await?.is_none() || !consume(transaction, user, used).await? {
                return Ok(false);
            }
            Entity::delete_by_id(user).exec(transaction).await?;
            removed(transaction, (user, keep)).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }
}

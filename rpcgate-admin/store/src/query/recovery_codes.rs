//! Recovery codes of users, by their hashes.

use super::audit::{Audit, append};
use super::digest::Digest;
use super::factors::{FactorUse, consume};
use super::id::UserId;
use crate::entity::recovery_codes::{ActiveModel, Column, Entity};
use crate::{Store, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};

pub(super) async fn replace(
    transaction: &DatabaseTransaction,
    user: UserId,
    codes: &[Digest],
) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::UserId.eq(user)).exec(transaction).await?;
    if codes.is_empty() {
        return Ok(());
    }
    let rows = codes.iter().map(|hash| ActiveModel { user_id: Set(user), hash: Set(hash.bytes()) });
    Entity::insert_many(rows).exec_without_returning(transaction).await?;
    Ok(())
}

impl Store {
    /// Returns the hash among these that belongs to a user's recovery code.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn recovery_code_among(
        &self,
        user: UserId,
        hashes: &[Digest],
    ) -> Result<Option<Digest>, StoreError> {
        if hashes.is_empty() {
            return Ok(None);
        }
        let any = hashes.iter().map(Digest::bytes);
        let its = Entity::find().filter(Column::UserId.eq(user)).filter(Column::Hash.is_in(any));
        let found = self.read(async |database| Ok(its.one(database).await?)).await?;
        Ok(found.and_then(|row| hashes.iter().find(|hash| hash.bytes() == row.hash).copied()))
    }

    /// Consumes a factor and replaces the user's recovery codes. Returns false, and does nothing, if the factor was
    /// used before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn renew_recovery_codes(
        &self,
        user: UserId,
        used: &FactorUse,
        codes: &[Digest],
        entry: &Audit,
    ) -> Result<bool, StoreError> {
        self.transact(async |transaction| {
            if !consume(transaction, user, used).await? {
                return Ok(false);
            }
            replace(transaction, user, codes).await?;
            append(transaction, entry).await?;
            Ok(true)
        })
        .await
    }
}

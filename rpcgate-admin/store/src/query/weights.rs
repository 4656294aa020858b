//! The operators' weights of methods, in Compute Units.

use super::audit::{self, Audit};
use super::changes::{NewChange, record};
use super::value::unreadable;
use crate::entity::weights::{ActiveModel, Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use std::collections::BTreeMap;

pub(super) fn weight(stored: i64) -> Result<u32, StoreError> {
    u32::try_from(stored).map_err(|_| unreadable("weight", stored))
}

async fn put(
    transaction: &DatabaseTransaction,
    chain: &str,
    method: &str,
    cu: u32,
) -> Result<(), StoreError> {
    let row = ActiveModel { chain: Set(chain.into()), method: Set(method.into()), cu: Set(cu.into()) };
    let upsert = OnConflict::columns([Column::Chain, Column::Method]).update_column(Column::Cu).to_owned();
    Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
    Ok(())
}

impl Store {
    /// Returns the weight of a chain's method, if operators have set it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn weight(&self, chain: &str, method: &str) -> Result<Option<u32>, StoreError> {
        self.read(async |database| {
            let set = Entity::find_by_id((chain.to_owned(), method.to_owned())).one(database).await?;
            set.map(|row| weight(row.cu)).transpose()
        })
        .await
    }

    /// Returns the weights that operators have set for methods of a chain.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn weights(&self, chain: &str) -> Result<BTreeMap<String, u32>, StoreError> {
        self.read(async |database| {
            let set = Entity::find().filter(Column::Chain.eq(chain)).all(database).await?;
            set.into_iter().map(|row| Ok((row.method, weight(row.cu)?))).collect()
        })
        .await
    }

    /// Sets the weight of a chain's method.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn put_weight(&self, chain: &str, method: &str, cu: u32, now: Time) -> Result<(), StoreError> {
        self.write_settings(None, now, async |transaction| {
            put(transaction, chain, method, cu).await?;
            record(transaction, NewChange::Chain(chain), now).await
        })
        .await
    }

    /// Sets the weights of methods of a chain in one transaction, each with its own audit entry.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn put_weights(
        &self,
        chain: &str,
        weights: &[(&str, u32, Audit)],
        now: Time,
    ) -> Result<(), StoreError> {
        let author = weights.first().map(|(_, _, entry)| entry);
        self.transact_settings((None, now), author, async |transaction| {
            for (method, cu, entry) in weights {
                put(transaction, chain, method, *cu).await?;
                audit::append(transaction, entry).await?;
            }
            record(transaction, NewChange::Chain(chain), now).await
        })
        .await
    }

    /// Removes a weight, so that the configured one applies again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it was not set, [`StoreError::Unavailable`].
    pub async fn delete_weight(&self, chain: &str, method: &str, now: Time) -> Result<(), StoreError> {
        self.write_settings(None, now, async |transaction| {
            let set = (chain.to_owned(), method.to_owned());
            if Entity::delete_by_id(set).exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("weight"));
            }
            record(transaction, NewChange::Chain(chain), now).await
        })
        .await
    }
}

//! Operators' switches for chains, and their commands to gateways.

use super::changes::{NewChange, record};
use crate::entity::chain_switches::{ActiveModel, Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::EntityTrait;
use sea_orm::sea_query::OnConflict;

impl Store {
    /// Switches a chain on or off. It is served only if the configuration enables it too.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn switch_chain(&self, chain: &str, on: bool, now: Time) -> Result<(), StoreError> {
        self.write_settings(None, now, async |transaction| {
            let row = ActiveModel { chain: Set(chain.into()), enabled: Set(on) };
            let upsert = OnConflict::column(Column::Chain).update_column(Column::Enabled).to_owned();
            Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
            record(transaction, NewChange::Chain(chain), now).await
        })
        .await
    }

    /// Makes every gateway empty the cache of a chain.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn clear_cache(&self, chain: &str, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| record(transaction, NewChange::Cache(chain), now).await).await
    }
}

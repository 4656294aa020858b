//! The names of tenants and users of all tenants, for operators.

use super::id::UserId;
use super::live_tenants::live_tenants;
use crate::entity::{tenants, users};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use std::collections::BTreeMap;

const MAX_NAMES: usize = 1_000;

impl Store {
    /// Returns the names of those of `ids` that exist: at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenant_names(&self, ids: &[TenantId]) -> Result<BTreeMap<TenantId, String>, StoreError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids = ids.iter().copied().take(MAX_NAMES);
        let found = live_tenants()
            .filter(tenants::Column::Id.is_in(ids))
            .select_only()
            .columns([tenants::Column::Id, tenants::Column::Name])
            .into_tuple::<(TenantId, String)>();
        self.read(async |database| Ok(found.all(database).await?.into_iter().collect())).await
    }

    /// Returns the names of those of `ids` that exist, or the addresses of users without a name: at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn user_names(&self, ids: &[UserId]) -> Result<BTreeMap<UserId, String>, StoreError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids = ids.iter().copied().take(MAX_NAMES);
        let found = users::Entity::find()
            .filter(users::Column::Id.is_in(ids))
            .select_only()
            .columns([users::Column::Id, users::Column::Name, users::Column::Email])
            .into_tuple::<(UserId, String, String)>();
        self.read(async |database| {
            let rows = found.all(database).await?.into_iter();
            let shown = |(id, name, email): (UserId, String, String)| {
                (id, if name.trim().is_empty() { email } else { name })
            };
            Ok(rows.map(shown).collect())
        })
        .await
    }
}

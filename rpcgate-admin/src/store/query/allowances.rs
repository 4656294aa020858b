//! How many requests the keys of a tenant may make in a day, together.

use super::keys::active;
use super::plans::plan;
use super::value::{count, tier};
use crate::store::entity::{keys, plans, projects, tenants};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::config::Plans;
use rpcgate_core::plan::Tier;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Tenants of one statement.
const TENANTS: usize = 512;

impl Store {
    /// What the plan lets all keys of each of `tenants` that can be used now make in a UTC day, together: as
    /// `requests_limit` in the usage view. The figures of plans are those of `plans` and, over them, what operators set.
    /// A tenant that is not here is left out.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn daily_allowances(
        &self,
        tenants: &BTreeSet<TenantId>,
        plans: &Plans,
        now: Time,
    ) -> Result<BTreeMap<TenantId, u64>, StoreError> {
        let wanted: Vec<Uuid> = tenants.iter().map(|tenant| Uuid::from_u128(tenant.0)).collect();
        self.read(async |database| {
            let mut per_day: BTreeMap<Tier, u64> =
                Tier::ALL.into_iter().map(|tier| (tier, plans.of(tier).per_day)).collect();
            for row in plans::Entity::find().all(database).await? {
                if let Some(figure) = plan(&row)?.per_day {
                    per_day.insert(tier(&row.tier)?, figure);
                }
            }
            let mut allowances = BTreeMap::new();
            for some in wanted.chunks(TENANTS) {
                let keys = keys::Entity::find()
                    .select_only()
                    .column(projects::Column::TenantId)
                    .column_as(keys::Column::Id.count(), "keys")
                    .inner_join(projects::Entity)
                    .filter(projects::Column::TenantId.is_in(some.iter().copied()))
                    .filter(active(now))
                    .group_by(projects::Column::TenantId);
                let keys: Vec<(Uuid, i64)> = keys.into_tuple().all(database).await?;
                let keys: BTreeMap<Uuid, i64> = keys.into_iter().collect();
                let tiers = tenants::Entity::find()
                    .select_only()
                    .columns([tenants::Column::Id, tenants::Column::Tier])
                    .filter(tenants::Column::Id.is_in(some.iter().copied()));
                let tiers: Vec<(Uuid, String)> = tiers.into_tuple().all(database).await?;
                for (id, name) in tiers {
                    let many = count("number of keys", keys.get(&id).copied().unwrap_or_default())?;
                    let each = per_day.get(&tier(&name)?).copied().unwrap_or_default();
                    allowances.insert(TenantId(id.as_u128()), each.saturating_mul(many));
                }
            }
            Ok(allowances)
        })
        .await
    }
}

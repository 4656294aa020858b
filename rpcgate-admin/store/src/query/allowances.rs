//! The number of requests that all keys of a tenant together may make in a day.

use super::keys::active;
use super::plan_figures::plan;
use super::scheduled_changes;
use super::terms;
use super::value::count;
use crate::entity::{keys, plans, projects, tenants};
use crate::{Store, StoreError};
use rpcgate_config::Plans;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use std::collections::{BTreeMap, BTreeSet};

const TENANTS: usize = 512;

impl Store {
    /// Returns the number of requests that all usable keys of each tenant together may make in a UTC day:
    /// `requests_limit` of the usage view. The limits are those of `plans`, overridden by operators. Omits tenants that
    /// do not exist.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn daily_allowances<'a>(
        &'a self,
        tenants: &'a BTreeSet<TenantId>,
        plans: &'a Plans,
        now: Time,
    ) -> BoxFuture<'a, Result<BTreeMap<TenantId, u64>, StoreError>> {
        Box::pin(async move {
            let wanted: Vec<TenantId> = tenants.iter().copied().collect();
            self.read(async |database| {
                let mut per_day: BTreeMap<Tier, u64> =
                    Tier::ALL.into_iter().map(|tier| (tier, plans.of(tier).per_day)).collect();
                for row in plans::Entity::find().all(database).await? {
                    if let Some(limit) = plan(&row)?.per_day {
                        per_day.insert(row.tier, limit);
                    }
                }
                let scheduled = scheduled_changes::all(database).await?.into_iter();
                for due in scheduled.filter(|change| change.from <= now) {
                    if let Some(limit) = due.figures.per_day {
                        per_day.insert(due.tier, limit);
                    }
                }
                let mut allowances = BTreeMap::new();
                for chunk in wanted.chunks(TENANTS) {
                    let keys = keys::Entity::find()
                        .select_only()
                        .column(projects::Column::TenantId)
                        .column_as(keys::Column::Id.count(), "keys")
                        .inner_join(projects::Entity)
                        .filter(projects::Column::TenantId.is_in(chunk.iter().copied()))
                        .filter(active(now))
                        .group_by(projects::Column::TenantId);
                    let keys: Vec<(TenantId, i64)> = keys.into_tuple().all(database).await?;
                    let keys: BTreeMap<TenantId, i64> = keys.into_iter().collect();
                    let tiers = tenants::Entity::find()
                        .select_only()
                        .columns([tenants::Column::Id, tenants::Column::Tier])
                        .filter(tenants::Column::Id.is_in(chunk.iter().copied()));
                    let tiers: Vec<(TenantId, Tier)> = tiers.into_tuple().all(database).await?;
                    let terms = terms::of_tenants(database, chunk, now).await?;
                    for (id, tier) in tiers {
                        let key_count = count("number of keys", keys.get(&id).copied().unwrap_or_default())?;
                        let per_key = per_day.get(&tier).copied().unwrap_or_default();
                        let agreed = terms.get(&id).and_then(|terms| terms.figures(now).plan.per_day);
                        let per_key = agreed.unwrap_or(per_key);
                        allowances.insert(id, per_key.saturating_mul(key_count));
                    }
                }
                Ok(allowances)
            })
            .await
        })
    }
}

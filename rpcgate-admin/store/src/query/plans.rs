//! The figures of plans that operators set.

use super::changes::{NewChange, record};
use super::live_tenants::live_tenant;
use super::plan_figures::{check_figures, plan, replace_figures, set_figures};
use super::scheduled_changes::{self, settle};
use super::terms;
use crate::entity::plans::Entity;
use crate::{Store, StoreError};
use rpcgate_config::{PlanChange, Plans};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Counts, Tier};
use sea_orm::{DatabaseTransaction, EntityTrait};
use std::collections::BTreeMap;

/// Returns the limits on a tenant's objects of each kind: those of its plan in `configured`, overridden by operators,
/// and its contracts.
pub(super) async fn counts(
    transaction: &DatabaseTransaction,
    configured: &Plans,
    tenant: TenantId,
    now: Time,
) -> Result<Counts, StoreError> {
    let tenant_tier = live_tenant(transaction, tenant).await?.tier;
    let mut plan_of_tenant = configured.of_tenant(tenant_tier);
    if let Some(row) = Entity::find_by_id(tenant_tier).one(transaction).await? {
        plan(&row)?.apply(&mut plan_of_tenant);
    }
    for due in scheduled_changes::due(transaction, tenant_tier, now).await? {
        due.change.figures.apply(&mut plan_of_tenant);
    }
    Ok(terms::of_tenant(transaction, tenant, now).await?.plan(plan_of_tenant, now).counts)
}

pub(super) fn full(max: u32, things: &str, remedy: &str) -> StoreError {
    StoreError::Full(format!("the plan allows {max} {things}: {remedy}, or ask for a larger plan"))
}

impl Store {
    /// Returns the limits that operators set, by plan.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn plan_changes(&self) -> Result<BTreeMap<Tier, PlanChange>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().all(database).await?;
            rows.iter().map(|row| Ok((row.tier, plan(row)?))).collect()
        })
        .await
    }

    /// Sets the given figures of a plan; the others stay unchanged.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] for a limit beyond 2⁶³ − 1, [`StoreError::Unavailable`].
    pub async fn put_plan(&self, tier: Tier, change: &PlanChange, now: Time) -> Result<(), StoreError> {
        check_figures(tier, change)?;
        if *change == PlanChange::default() {
            return Ok(());
        }
        self.write_settings(None, now, async |transaction| {
            settle(transaction, tier, now).await?;
            set_figures(transaction, tier, change, now).await?;
            record(transaction, NewChange::Plan(tier), now).await
        })
        .await
    }

    /// Replaces all figures that are set for a plan. Scheduled changes stay.
    ///
    /// # Errors
    /// Those of [`put_plan`](Store::put_plan).
    pub async fn replace_plan(&self, tier: Tier, change: &PlanChange, now: Time) -> Result<(), StoreError> {
        check_figures(tier, change)?;
        self.write_settings(None, now, async |transaction| {
            settle(transaction, tier, now).await?;
            replace_figures(transaction, tier, change, now).await?;
            record(transaction, NewChange::Plan(tier), now).await
        })
        .await
    }
}

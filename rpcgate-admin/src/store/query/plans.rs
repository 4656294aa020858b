//! Plans: the figures that operators set.

use super::changes::{NewChange, record};
use super::live_tenants::live_tenant;
use super::plan_fees::record_fee;
use super::terms;
use super::value::{count, number, tier, unreadable};
use crate::store::entity::plans::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::config::{CountsChange, PlanChange, Plans, QuotaChange};
use rpcgate_core::plan::{Counts, Price, Tier};
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{DatabaseTransaction, EntityTrait};
use std::collections::BTreeMap;

/// The limits in a row.
pub(super) fn plan(row: &Model) -> Result<PlanChange, StoreError> {
    let figure = |stored: Option<i64>| stored.map(|stored| count("figure of a plan", stored)).transpose();
    let small = |stored: Option<i64>| {
        let small = |stored| u32::try_from(stored).map_err(|_| unreadable("count of a plan", stored));
        stored.map(small).transpose()
    };
    Ok(PlanChange {
        per_minute: figure(row.per_minute)?,
        per_hour: figure(row.per_hour)?,
        per_day: figure(row.per_day)?,
        heavy_per_minute: figure(row.heavy_per_minute)?,
        price: figure(row.price)?.map(Price),
        ws_connections: small(row.ws_connections)?,
        ws_connections_per_key: small(row.ws_connections_per_key)?,
        counts: CountsChange {
            projects: small(row.projects)?,
            keys_per_project: small(row.keys_per_project)?,
            members: small(row.members)?,
            webhooks_per_project: small(row.webhooks_per_project)?,
            subscriptions_per_webhook: small(row.subscriptions_per_webhook)?,
        },
        quota: QuotaChange {
            cu_per_day: figure(row.cu_per_day)?,
            cu_per_month: figure(row.cu_per_month)?,
            rps_limit: figure(row.rps_limit)?,
        },
        monthly_fee: figure(row.monthly_fee_cents)?,
    })
}

/// How many things of each kind a tenant may have: as its plan says, `configured` and overridden by the settings of
/// operators, and its contracts.
pub(super) async fn counts(
    transaction: &DatabaseTransaction,
    configured: &Plans,
    tenant: TenantId,
    now: Time,
) -> Result<Counts, StoreError> {
    let tenant_tier = tier(&live_tenant(transaction, tenant).await?.tier)?;
    let mut plan_of_tenant = configured.of_tenant(tenant_tier);
    if let Some(row) = Entity::find_by_id(tenant_tier.name()).one(transaction).await? {
        plan(&row)?.apply(&mut plan_of_tenant);
    }
    Ok(terms::of_tenant(transaction, tenant, now).await?.plan(plan_of_tenant, now).counts)
}

/// The error that a tenant has the maximum number of `things`, and the remedy.
pub(super) fn full(max: u32, things: &str, remedy: &str) -> StoreError {
    StoreError::Full(format!("the plan allows {max} {things}: {remedy}, or ask for a larger plan"))
}

impl Store {
    /// The limits that operators set, by plan.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn plan_changes(&self) -> Result<BTreeMap<Tier, PlanChange>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().all(database).await?;
            rows.iter().map(|row| Ok((tier(&row.tier)?, plan(row)?))).collect()
        })
        .await
    }

    /// Sets the given limits of a plan; the others stay as they are.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] for a limit beyond 2⁶³ − 1, [`StoreError::Unavailable`].
    pub async fn put_plan(&self, tier: Tier, change: &PlanChange, now: Time) -> Result<(), StoreError> {
        let (row, given) = row(tier, change)?;
        if given.is_empty() {
            return Ok(());
        }
        self.write_settings(None, now, async |transaction| {
            let fee = fee_of(transaction, tier).await?;
            let upsert = OnConflict::column(Column::Tier).update_columns(given).to_owned();
            Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
            if change.monthly_fee.is_some() {
                record_fee(transaction, tier.into(), (fee, change.monthly_fee), now).await?;
            }
            record(transaction, NewChange::Plan(tier), now).await
        })
        .await
    }

    /// Sets the given limits of a plan, and none of the others any more.
    ///
    /// # Errors
    /// Those of [`put_plan`](Store::put_plan).
    pub async fn replace_plan(&self, tier: Tier, change: &PlanChange, now: Time) -> Result<(), StoreError> {
        let (row, given) = row(tier, change)?;
        self.write_settings(None, now, async |transaction| {
            let fee = fee_of(transaction, tier).await?;
            Entity::delete_by_id(tier.name()).exec(transaction).await?;
            if !given.is_empty() {
                Entity::insert(row).exec_without_returning(transaction).await?;
            }
            if fee != change.monthly_fee {
                record_fee(transaction, tier.into(), (fee, change.monthly_fee), now).await?;
            }
            record(transaction, NewChange::Plan(tier), now).await
        })
        .await
    }
}

/// The fee of a plan that operators have set.
async fn fee_of(transaction: &DatabaseTransaction, tier: Tier) -> Result<Option<u64>, StoreError> {
    let row = Entity::find_by_id(tier.name()).one(transaction).await?;
    Ok(row.map(|row| plan(&row)).transpose()?.and_then(|plan| plan.monthly_fee))
}

/// The row of a plan, and the columns that are given.
fn row(tier: Tier, change: &PlanChange) -> Result<(ActiveModel, Vec<Column>), StoreError> {
    let counts = &change.counts;
    let figures = [
        (Column::PerMinute, "per_minute", change.per_minute),
        (Column::PerHour, "per_hour", change.per_hour),
        (Column::PerDay, "per_day", change.per_day),
        (Column::HeavyPerMinute, "heavy_per_minute", change.heavy_per_minute),
        (Column::Price, "price_per_cu", change.price.map(|price| price.0)),
        (Column::WsConnections, "ws_connections", change.ws_connections.map(u64::from)),
        (Column::WsConnectionsPerKey, "ws_connections_per_key", change.ws_connections_per_key.map(u64::from)),
        (Column::Projects, "projects", counts.projects.map(u64::from)),
        (Column::KeysPerProject, "keys_per_project", counts.keys_per_project.map(u64::from)),
        (Column::Members, "members", counts.members.map(u64::from)),
        (Column::WebhooksPerProject, "webhooks_per_project", counts.webhooks_per_project.map(u64::from)),
        (
            Column::SubscriptionsPerWebhook,
            "subscriptions_per_webhook",
            counts.subscriptions_per_webhook.map(u64::from),
        ),
        (Column::CuPerDay, "cu_per_day", change.quota.cu_per_day),
        (Column::CuPerMonth, "cu_per_month", change.quota.cu_per_month),
        (Column::RpsLimit, "rps_limit", change.quota.rps_limit),
        (Column::MonthlyFeeCents, "monthly_fee_cents", change.monthly_fee),
    ];
    let given: Vec<Column> = figures.iter().filter(|f| f.2.is_some()).map(|f| f.0).collect();
    let mut row = ActiveModel { tier: Set(tier.name().into()), ..Default::default() };
    for (column, name, value) in figures {
        let value = value.map(|value| number(name, value)).transpose()?;
        sea_orm::ActiveModelTrait::set(&mut row, column, value.into());
    }
    Ok((row, given))
}

//! The rows of the figures that operators have set for the built-in plans.

use super::plan_fees::record_fee;
use super::value::{count, number, unreadable};
use crate::StoreError;
use crate::entity::plans::{ActiveModel, Column, Entity, Model};
use rpcgate_config::{CountsChange, PlanChange, QuotaChange};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{DatabaseTransaction, EntityTrait};

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

pub(super) fn check_figures(tier: Tier, change: &PlanChange) -> Result<(), StoreError> {
    row(tier, change).map(drop)
}

/// Sets the given figures of a plan from `now` on; the others stay unchanged.
pub(super) async fn set_figures(
    transaction: &DatabaseTransaction,
    tier: Tier,
    change: &PlanChange,
    now: Time,
) -> Result<(), StoreError> {
    let (row, given) = row(tier, change)?;
    let fee = fee_of(transaction, tier).await?;
    let upsert = OnConflict::column(Column::Tier).update_columns(given).to_owned();
    Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
    if change.monthly_fee.is_some() {
        record_fee(transaction, tier.into(), (fee, change.monthly_fee), now).await?;
    }
    Ok(())
}

/// Replaces all figures that are set for a plan from `now` on.
pub(super) async fn replace_figures(
    transaction: &DatabaseTransaction,
    tier: Tier,
    change: &PlanChange,
    now: Time,
) -> Result<(), StoreError> {
    let (row, given) = row(tier, change)?;
    let fee = fee_of(transaction, tier).await?;
    Entity::delete_by_id(tier).exec(transaction).await?;
    if !given.is_empty() {
        Entity::insert(row).exec_without_returning(transaction).await?;
    }
    if fee != change.monthly_fee {
        record_fee(transaction, tier.into(), (fee, change.monthly_fee), now).await?;
    }
    Ok(())
}

async fn fee_of(transaction: &DatabaseTransaction, tier: Tier) -> Result<Option<u64>, StoreError> {
    let row = Entity::find_by_id(tier).one(transaction).await?;
    Ok(row.map(|row| plan(&row)).transpose()?.and_then(|plan| plan.monthly_fee))
}

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
    let mut row = ActiveModel { tier: Set(tier), ..Default::default() };
    for (column, name, value) in figures {
        let value = value.map(|value| number(name, value)).transpose()?;
        sea_orm::ActiveModelTrait::set(&mut row, column, value.into());
    }
    Ok((row, given))
}

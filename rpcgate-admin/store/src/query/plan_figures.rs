//! The rows of the figures that operators have set for the built-in plans.

use super::plan_fees::record_fee;
use super::value::{count, number, unreadable};
use crate::StoreError;
use crate::entity::plans::{ActiveModel, Column, Entity, Model};
use rpcgate_config::PlanChange;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{PlanFigure, Tier};
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveModelTrait, DatabaseTransaction, EntityTrait, Iterable};

pub(super) fn plan(row: &Model) -> Result<PlanChange, StoreError> {
    let mut change = PlanChange::default();
    for (name, stored) in PlanFigure::NAMES.iter().zip(row.figures()) {
        let Some(stored) = stored else { continue };
        if !change.set(name, count("figure of a plan", stored)?) {
            return Err(unreadable("count of a plan", stored));
        }
    }
    Ok(change)
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
    let mut row = ActiveModel { tier: Set(tier), ..Default::default() };
    let mut given = Vec::new();
    let columns = Column::iter().filter(|column| !matches!(column, Column::Tier));
    for ((column, name), value) in columns.zip(PlanFigure::NAMES).zip(change.values()) {
        let value = value.map(|value| number(name, value)).transpose()?;
        given.extend(value.is_some().then_some(column));
        row.set(column, value.into());
    }
    Ok((row, given))
}

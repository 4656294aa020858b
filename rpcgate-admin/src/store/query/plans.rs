//! Plans: the figures that operators set.

use super::changes::{News, tell};
use super::value::{count, number, tier};
use crate::store::entity::plans::{ActiveModel, Column, Entity, Model};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use rpcgate_core::config::PlanChange;
use rpcgate_core::plan::{Price, Tier};
use sea_orm::ActiveValue::Set;
use sea_orm::EntityTrait;
use sea_orm::sea_query::OnConflict;
use std::collections::BTreeMap;

/// What a row sets.
pub(super) fn plan(row: &Model) -> Result<PlanChange, StoreError> {
    let figure = |stored: Option<i64>| stored.map(|stored| count("figure of a plan", stored)).transpose();
    Ok(PlanChange {
        per_minute: figure(row.per_minute)?,
        per_hour: figure(row.per_hour)?,
        per_day: figure(row.per_day)?,
        heavy_per_minute: figure(row.heavy_per_minute)?,
        price: figure(row.price)?.map(Price),
    })
}

impl Store {
    /// The figures that operators set, plan by plan.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn plan_changes(&self) -> Result<BTreeMap<Tier, PlanChange>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().all(database).await?;
            rows.iter().map(|row| Ok((tier(&row.tier)?, plan(row)?))).collect()
        })
        .await
    }

    /// Sets the figures of a plan that are given; the others stay as they are.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] for a figure beyond 2⁶³ − 1, [`StoreError::Away`].
    pub async fn put_plan(&self, tier: Tier, change: &PlanChange, now: Time) -> Result<(), StoreError> {
        let figures = [
            (Column::PerMinute, "per_minute", change.per_minute),
            (Column::PerHour, "per_hour", change.per_hour),
            (Column::PerDay, "per_day", change.per_day),
            (Column::HeavyPerMinute, "heavy_per_minute", change.heavy_per_minute),
            (Column::Price, "price_per_cu", change.price.map(|price| price.0)),
        ];
        let given: Vec<Column> = figures.iter().filter(|f| f.2.is_some()).map(|f| f.0).collect();
        if given.is_empty() {
            return Ok(());
        }
        let mut row = ActiveModel { tier: Set(tier.name().into()), ..Default::default() };
        for (column, name, value) in figures {
            let value = value.map(|value| number(name, value)).transpose()?;
            sea_orm::ActiveModelTrait::set(&mut row, column, value.into());
        }
        self.write(async |transaction| {
            let there = OnConflict::column(Column::Tier).update_columns(given).to_owned();
            Entity::insert(row).on_conflict(there).exec_without_returning(transaction).await?;
            tell(transaction, News::Plan(tier), now).await
        })
        .await
    }
}

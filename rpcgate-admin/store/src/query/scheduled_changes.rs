//! Changes of the built-in plans that take effect later.
//!
//! Gateways and the management side read them with the settings in force, and apply each at its time by their own
//! clocks. A change that has taken effect is [settled](Store::settle_plan_changes) afterwards: it becomes a part of the
//! figures set for its plan, and its fee is recorded for the day on which it took effect.

use super::changes::{NewChange, record};
use super::id::ScheduledChangeId;
use super::plan_figures::{check_figures, set_figures};
use super::value::insert_error;
use crate::entity::scheduled_changes::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_config::ScheduledChange;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::Set;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    Select,
};

/// The maximum number of scheduled changes per plan.
pub const MAX_SCHEDULED_CHANGES: u64 = 100;

/// A change of a built-in plan that takes effect later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduledPlanChange {
    /// Its identifier.
    pub id: ScheduledChangeId,
    /// The change and its time.
    pub change: ScheduledChange,
    /// The creation time.
    pub created_at: Time,
}

impl From<Model> for ScheduledPlanChange {
    fn from(row: Model) -> Self {
        let change = ScheduledChange { from: row.effective_at, tier: row.tier, figures: row.figures.plan };
        ScheduledPlanChange { id: row.id, change, created_at: row.created_at }
    }
}

fn in_order() -> Select<Entity> {
    Entity::find().order_by_asc(Column::EffectiveAt).order_by_asc(Column::Id)
}

fn of(tier: Tier) -> Select<Entity> {
    in_order().filter(Column::Tier.eq(tier))
}

/// Returns the changes of all plans, in the order in which they take effect.
pub(super) async fn all(database: &impl ConnectionTrait) -> Result<Vec<ScheduledChange>, StoreError> {
    let rows = in_order().all(database).await?;
    Ok(rows.into_iter().map(|row| ScheduledPlanChange::from(row).change).collect())
}

pub(super) async fn rows(database: &impl ConnectionTrait, tier: Tier) -> Result<Vec<Model>, StoreError> {
    Ok(of(tier).all(database).await?)
}

pub(super) async fn due(
    transaction: &DatabaseTransaction,
    tier: Tier,
    now: Time,
) -> Result<Vec<ScheduledPlanChange>, StoreError> {
    let rows = of(tier).filter(Column::EffectiveAt.lte(now)).all(transaction).await?;
    Ok(rows.into_iter().map(ScheduledPlanChange::from).collect())
}

/// Adds the due changes of a plan to its figures, each from its own time on. Reports whether there were any.
pub(super) async fn settle(
    transaction: &DatabaseTransaction,
    tier: Tier,
    now: Time,
) -> Result<bool, StoreError> {
    let due = due(transaction, tier, now).await?;
    for one in &due {
        set_figures(transaction, tier, &one.change.figures, one.change.from).await?;
        Entity::delete_by_id(one.id).exec(transaction).await?;
    }
    Ok(!due.is_empty())
}

impl Store {
    /// Schedules a change of a plan. Notifies gateways now rather than when it takes effect, because they read its time
    /// now.
    ///
    /// # Errors
    /// [`StoreError::Full`] if [`MAX_SCHEDULED_CHANGES`] of the plan wait, [`StoreError::TooLarge`] for a figure beyond
    /// 2⁶³ − 1, [`StoreError::Unavailable`].
    pub async fn schedule_plan_change(&self, new: &ScheduledPlanChange, now: Time) -> Result<(), StoreError> {
        let ScheduledChange { from, tier, figures } = new.change;
        // It must be possible to apply it later.
        check_figures(tier, &figures)?;
        let row = ActiveModel {
            id: Set(new.id),
            tier: Set(tier),
            effective_at: Set(from),
            figures: Set(figures.into()),
            created_at: Set(new.created_at),
        };
        self.write(async |transaction| {
            let waiting = of(tier).filter(Column::EffectiveAt.gt(now));
            if waiting.count(transaction).await? >= MAX_SCHEDULED_CHANGES {
                let why = format!(
                    "{MAX_SCHEDULED_CHANGES} changes of this plan wait for their time: withdraw one first"
                );
                return Err(StoreError::Full(why));
            }
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "change", "plan", None))?;
            record(transaction, NewChange::Plan(tier), now).await
        })
        .await
    }

    /// Returns the changes of a plan that take effect after `now`, in order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn scheduled_plan_changes(
        &self,
        tier: Tier,
        now: Time,
    ) -> Result<Vec<ScheduledPlanChange>, StoreError> {
        self.read(async |database| {
            let rows = of(tier).filter(Column::EffectiveAt.gt(now)).all(database).await?;
            Ok(rows.into_iter().map(ScheduledPlanChange::from).collect())
        })
        .await
    }

    /// Withdraws a change of a plan that has not taken effect, and notifies gateways.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if this plan has no such pending change, [`StoreError::Unavailable`].
    pub async fn withdraw_plan_change(
        &self,
        tier: Tier,
        id: ScheduledChangeId,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let its = Entity::delete_many()
                .filter(Column::Id.eq(id))
                .filter(Column::Tier.eq(tier))
                .filter(Column::EffectiveAt.gt(now));
            if its.exec(transaction).await?.rows_affected == 0 {
                return Err(StoreError::NotFound("scheduled change"));
            }
            record(transaction, NewChange::Plan(tier), now).await
        })
        .await
    }

    /// Settles the due changes of all plans: the figures in force stay the same, and their fees are recorded.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn settle_plan_changes(&self, now: Time) -> Result<(), StoreError> {
        let overlay = self.overlay().await?;
        let tiers = Tier::ALL.into_iter();
        let is_due =
            |tier: &Tier| overlay.scheduled.iter().any(|change| change.tier == *tier && change.from <= now);
        for tier in tiers.filter(is_due) {
            self.write_settings(None, now, async |transaction| {
                if settle(transaction, tier, now).await? {
                    record(transaction, NewChange::Plan(tier), now).await?;
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

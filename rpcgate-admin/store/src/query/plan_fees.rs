//! The fees of plans with the days from which they apply, so that a month is billed by the fees of its days.

use super::tier_changes::TenantPlan;
use super::value::{count, number};
use crate::entity::plan_fees::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};
use std::collections::BTreeMap;
use std::time::Duration;

const DAY: u64 = 86_400;

/// The time that a superseded fee is kept: longer than any month stays unbilled.
const KEPT: Duration = Duration::from_secs(400 * DAY);

/// A fee of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanFee {
    /// The plan.
    pub plan: TenantPlan,
    /// The start of the first day (UTC) on which it applies, until the plan's next fee.
    pub since: Time,
    /// The fee for a month, in cents. `None` means the fee of the base for a custom plan, and the configured fee for a
    /// built-in plan.
    pub cents: Option<u64>,
}

impl TryFrom<Model> for PlanFee {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let cents = row.cents.map(|cents| count("fee", cents)).transpose()?;
        Ok(PlanFee {
            plan: TenantPlan { tier: row.tier, custom: row.custom_plan_id },
            since: row.since,
            cents,
        })
    }
}

fn of(plan: TenantPlan) -> Condition {
    match plan.custom {
        Some(custom) => Condition::all().add(Column::CustomPlanId.eq(custom)),
        None => Condition::all().add(Column::Tier.eq(plan.tier)).add(Column::CustomPlanId.is_null()),
    }
}

async fn insert(transaction: &DatabaseTransaction, fee: PlanFee) -> Result<(), StoreError> {
    let row = ActiveModel {
        number: NotSet,
        tier: Set(fee.plan.tier),
        custom_plan_id: Set(fee.plan.custom),
        since: Set(fee.since),
        cents: Set(fee.cents.map(|cents| number("fee", cents)).transpose()?),
    };
    Entity::insert(row).exec_without_returning(transaction).await?;
    Ok(())
}

async fn prune(transaction: &DatabaseTransaction, plan: TenantPlan, now: Time) -> Result<(), StoreError> {
    let oldest = now.minus(KEPT);
    let held_then = Entity::find().filter(of(plan)).filter(Column::Since.lte(oldest));
    if let Some(row) = held_then.order_by_desc(Column::Since).one(transaction).await? {
        let before = Entity::delete_many().filter(of(plan)).filter(Column::Since.lt(row.since));
        before.exec(transaction).await?;
    }
    Ok(())
}

/// Records that the fee of a plan is `after` from the day of `now` on, and that it was `before` until then, if no
/// earlier fee is recorded. A second change within a day replaces the first one.
pub(super) async fn record_fee(
    transaction: &DatabaseTransaction,
    plan: TenantPlan,
    (before, after): (Option<u64>, Option<u64>),
    now: Time,
) -> Result<(), StoreError> {
    let newest = Entity::find().filter(of(plan)).order_by_desc(Column::Since).one(transaction).await?;
    let since = Time::from_secs(now.secs() / DAY * DAY);
    let (newest, current) = match newest {
        Some(row) => (row.since, PlanFee::try_from(row)?.cents),
        None => {
            let always = Time::from_secs(0);
            insert(transaction, PlanFee { plan, since: always, cents: before }).await?;
            (always, before)
        }
    };
    if current == after {
        return Ok(());
    }
    if newest >= since {
        let cents = after.map(|cents| number("fee", cents)).transpose()?;
        let update = Entity::update_many().col_expr(Column::Cents, Expr::value(cents));
        update.filter(of(plan)).filter(Column::Since.eq(newest)).exec(transaction).await?;
    } else {
        insert(transaction, PlanFee { plan, since, cents: after }).await?;
    }
    prune(transaction, plan, now).await
}

impl Store {
    /// Returns the recorded fees of all plans, for each plan the oldest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn plan_fees(&self) -> Result<Vec<PlanFee>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().order_by_asc(Column::Since).order_by_asc(Column::Number);
            rows.all(database).await?.into_iter().map(PlanFee::try_from).collect()
        })
        .await
    }

    /// Records the fees of the built-in plans, in cents, from the day of `now` on, unless they are already recorded.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn record_tier_fees(&self, fees: &BTreeMap<Tier, u64>, now: Time) -> Result<(), StoreError> {
        let recorded = self.plan_fees().await?;
        let is_recorded = |(tier, cents): (&Tier, &u64)| {
            let of_tier = |fee: &&PlanFee| fee.plan == TenantPlan::from(*tier);
            recorded.iter().rfind(of_tier).is_some_and(|fee| fee.cents == Some(*cents))
        };
        if fees.iter().all(is_recorded) {
            return Ok(());
        }
        self.transact(async |transaction| {
            for (tier, cents) in fees {
                record_fee(transaction, (*tier).into(), (Some(*cents), Some(*cents)), now).await?;
            }
            Ok(())
        })
        .await
    }
}

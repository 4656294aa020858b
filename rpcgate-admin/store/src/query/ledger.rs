//! The billing ledger.

use super::usage_rows::{ROWS, statement_error, stored};
use super::value::count;
use crate::entity::ledger::{Column, Entity};
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::{Amount, Charge, Charged};
use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait, OnConflict, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

const STEP: i64 = 24;

/// Adds charges to the stored sums. No two of `charges` share all their key columns.
pub(super) async fn charge(transaction: &DatabaseTransaction, charges: &[Charge]) -> Result<(), StoreError> {
    const KEY: [Column; 6] =
        [Column::Tenant, Column::Hour, Column::Project, Column::Chain, Column::Tier, Column::Price];
    const SUMS: [Column; 2] = [Column::Calls, Column::Units];
    for chunk in charges.chunks(ROWS) {
        let mut insert = Query::insert();
        insert.into_table(Entity).columns(KEY.into_iter().chain(SUMS));
        for charge in chunk {
            let values: [Expr; 8] = [
                Uuid::from_u128(charge.tenant.0).into(),
                stored(charge.hour).into(),
                Uuid::from_u128(charge.project.0).into(),
                charge.chain.as_str().into(),
                charge.tier.name().into(),
                stored(charge.price.0).into(),
                stored(charge.calls).into(),
                stored(charge.units).into(),
            ];
            insert.values(values).map_err(statement_error)?;
        }
        let sum = |sum| (sum, Expr::col((Entity, sum)).add(Expr::col((Alias::new("excluded"), sum))));
        let upsert = OnConflict::columns(KEY).values(SUMS.map(sum)).to_owned();
        transaction.execute(insert.on_conflict(upsert)).await?;
    }
    Ok(())
}

/// Returns the amounts charged to all tenants, or to one, in the UTC hours with these numbers.
pub(super) async fn charged_to_all(
    database: &impl ConnectionTrait,
    hours: &Range<u64>,
    only: Option<TenantId>,
) -> Result<BTreeMap<TenantId, Amount>, StoreError> {
    let sums = Entity::find()
        .select_only()
        .columns([Column::Tenant, Column::Price])
        // PostgreSQL's sum of bigints is a numeric.
        .column_as(Column::Units.sum().cast_as("bigint"), "all_units")
        .filter(Column::Hour.gte(stored(hours.start)))
        .filter(Column::Hour.lt(stored(hours.end)))
        .filter(Condition::all().add_option(only.map(|tenant| Column::Tenant.eq(tenant))))
        .group_by(Column::Tenant)
        .group_by(Column::Price);
    let rows: Vec<(Uuid, i64, i64)> = sums.into_tuple().all(database).await?;
    let mut amounts: BTreeMap<TenantId, Amount> = BTreeMap::new();
    for (tenant, price, units) in rows {
        let price = count("price", price)?;
        let units = count("number of Compute Units", units)?;
        let amount = amounts.entry(TenantId(tenant.as_u128())).or_default();
        amount.0 = amount.0.saturating_add(u128::from(price) * u128::from(units));
    }
    Ok(amounts)
}

impl UsageStore {
    /// Returns the charges of a tenant in the UTC hours with these numbers: one row per project, chain, tier and price,
    /// in this order. The amounts of all rows add up to the tenant's debt for these hours.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn bill(&self, tenant: TenantId, hours: Range<u64>) -> Result<Vec<Charged>, StoreError> {
        self.read(async |database| {
            let sums = Entity::find()
                .select_only()
                .columns([Column::Project, Column::Chain, Column::Tier, Column::Price])
                // PostgreSQL's sum of bigints is a numeric.
                .column_as(Column::Calls.sum().cast_as("bigint"), "all_calls")
                .column_as(Column::Units.sum().cast_as("bigint"), "all_units")
                .filter(Column::Tenant.eq(tenant))
                .filter(Column::Hour.gte(stored(hours.start)))
                .filter(Column::Hour.lt(stored(hours.end)))
                .group_by(Column::Project)
                .group_by(Column::Chain)
                .group_by(Column::Tier)
                .group_by(Column::Price)
                .order_by_asc(Column::Project)
                .order_by_asc(Column::Chain)
                .order_by_asc(Column::Tier)
                .order_by_asc(Column::Price);
            let rows: Vec<(ProjectId, String, Tier, i64, i64, i64)> = sums.into_tuple().all(database).await?;
            let read =
                |(project, chain, tier, price, calls, units): (ProjectId, String, Tier, i64, i64, i64)| {
                    Ok(Charged {
                        project,
                        chain,
                        tier,
                        price: Price(count("price", price)?),
                        calls: count("number of calls", calls)?,
                        units: count("number of Compute Units", units)?,
                    })
                };
            rows.into_iter().map(read).collect()
        })
        .await
    }

    pub(super) async fn remove_charges(&self, before: Time) -> Result<u64, StoreError> {
        let end = stored(before.hour());
        let mut removed = 0;
        loop {
            let step = self
                .remove_old(async |transaction| {
                    let oldest = Entity::find().select_only().column(Column::Hour);
                    let oldest = oldest.filter(Column::Hour.lt(end)).order_by_asc(Column::Hour).limit(1);
                    let Some(first) = oldest.into_tuple::<i64>().one(transaction).await? else {
                        return Ok(None);
                    };
                    let old = Column::Hour.lt(std::cmp::min(end, first.saturating_add(STEP)));
                    let done = Entity::delete_many().filter(old).exec(transaction).await?;
                    Ok(Some(done.rows_affected))
                })
                .await?;
            match step {
                Some(step) => removed += step,
                None => return Ok(removed),
            }
        }
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "ledger/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

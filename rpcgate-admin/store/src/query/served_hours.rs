//! The calls of all tenants, by hour and chain.

use super::summed::Summed;
use super::sums::{Dimensions, Level};
use super::usage_rows::stored;
use crate::entity::rollups::{self, Column};
use crate::entity::sums;
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::TenantId;
use rpcgate_core::usage::Metrics;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Query, SelectStatement};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// The deadline of the query, for which only an operator waits.
const READ_DEADLINE: Duration = Duration::from_secs(5);

const CALLS: Dimensions = Dimensions { project: false, key: false, call: true };

impl UsageStore {
    /// Returns the calls of all tenants on each chain in each of `hours`, by the number of the hour and the path of the
    /// chain: requests, errors, cache hits and Compute Units. Operators' queries wait for each other like those of a
    /// tenant.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::Unavailable`].
    pub async fn served_hours(
        &self,
        hours: Range<u64>,
    ) -> Result<BTreeMap<(u64, String), Metrics>, StoreError> {
        let permit = self.permits.acquire(TenantId::default()).await?;
        let _large = permit.acquire_large().await?;
        self.snapshot_within(READ_DEADLINE, async |database| {
            let summed = Summed::read(database).await?;
            let mut found: BTreeMap<(u64, String), Metrics> = BTreeMap::new();
            for select in statements(&summed, &hours) {
                for row in database.query_all(&select).await? {
                    let number =
                        |place| Ok::<_, StoreError>(row.try_get_by_index::<i64>(place)?.unsigned_abs());
                    let chain: String = row.try_get_by_index(1)?;
                    let part = Metrics {
                        requests: number(2)?,
                        errors: number(3)?,
                        cache_hits: number(4)?,
                        billable_units: number(5)?,
                        ..Metrics::default()
                    };
                    found.entry((number(0)?, chain)).or_default().add(&part);
                }
            }
            Ok(found)
        })
        .await
    }
}

/// Reads hours that are summed for all tenants from the sums, and the others from the rollups.
fn statements(summed: &Summed, hours: &Range<u64>) -> [SelectStatement; 2] {
    // No tenant has a larger identifier, so every earlier hour is summed completely.
    let first = summed.first();
    let end = summed.end(TenantId(u128::MAX));
    let mut of_sums = Query::select();
    let mut of_rollups = Query::select();
    let code = Level::of(CALLS, 1).map_or(0, |level| level.code);
    of_sums
        .from(sums::Entity)
        .and_where(Expr::col(sums::Column::Level).eq(code))
        .and_where(Expr::col(Column::Hour).gte(stored(Ord::max(hours.start, first))))
        .and_where(Expr::col(Column::Hour).lt(stored(Ord::min(hours.end, end))));
    let unsummed = Condition::any()
        .add(Expr::col(Column::Hour).lt(stored(first)))
        .add(Expr::col(Column::Hour).gte(stored(end)));
    of_rollups
        .from(rollups::Entity)
        .and_where(Expr::col(Column::Hour).gte(stored(hours.start)))
        .and_where(Expr::col(Column::Hour).lt(stored(hours.end)))
        .cond_where(unsummed);
    [of_sums, of_rollups].map(|mut select| {
        select.column(Column::Hour).column(Column::Chain);
        for column in [Column::Requests, Column::Errors, Column::CacheHits, Column::BillableUnits] {
            // PostgreSQL's sum of bigints is a numeric.
            select.expr(Expr::col(column).sum().cast_as("bigint"));
        }
        select.group_by_col(Column::Hour).group_by_col(Column::Chain);
        select
    })
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "served_hours/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

//! Usage in a window, by project.

use super::source::{Source, union_all};
use super::summed::Summed;
use super::sums::Dimensions;
use crate::entity::rollups::Column;
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::usage::UsageWindow;
use sea_orm::sea_query::{Expr, ExprTrait, SelectStatement};
use sea_orm::{ConnectionTrait, DbErr, QueryResult};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The usage of a project in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Calls, including refused ones.
    pub requests: u64,
    /// Requests counted in the plan windows: a batch counts as one.
    pub admitted: u64,
    /// Compute Units charged.
    pub billable_units: u64,
}

impl Spent {
    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Spent) -> Spent {
        Spent {
            requests: self.requests.saturating_add(other.requests),
            admitted: self.admitted.saturating_add(other.admitted),
            billable_units: self.billable_units.saturating_add(other.billable_units),
        }
    }
}

impl UsageStore {
    /// Returns the usage of each project of a tenant, or only of `project`, in `window`. Omits projects without usage;
    /// includes deleted ones.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Busy`].
    pub async fn spent(
        &self,
        tenant: TenantId,
        project: Option<ProjectId>,
        window: &UsageWindow,
    ) -> Result<BTreeMap<ProjectId, Spent>, StoreError> {
        let _permit = self.permits.acquire(tenant).await?;
        self.snapshot(async |database| {
            let summed = Summed::read(database).await?;
            let dimensions = Dimensions { project: true, ..Dimensions::default() };
            let sources = Source::all(&summed, tenant, &window.hours(), dimensions, false);
            let selects = sources.iter().map(|source| {
                let mut selected = sums(source.select());
                selected.and_where_option(project.map(|project| Expr::col(Column::Project).eq(project)));
                selected
            });
            let rows = database.query_all(&sums(union_all(selects))).await?;
            let read = |row: QueryResult| {
                let count = |at| Ok::<_, DbErr>(row.try_get_by_index::<i64>(at)?.unsigned_abs());
                let spent = Spent { requests: count(1)?, admitted: count(2)?, billable_units: count(3)? };
                Ok((ProjectId(row.try_get_by_index::<Uuid>(0)?.as_u128()), spent))
            };
            rows.into_iter().map(read).collect()
        })
        .await
    }
}

const COUNTS: [Column; 3] = [Column::Requests, Column::WindowRequests, Column::BillableUnits];

fn sums(mut select: SelectStatement) -> SelectStatement {
    select.column(Column::Project).group_by_col(Column::Project);
    for count in COUNTS {
        // PostgreSQL's sum of bigints is a numeric.
        select.expr_as(Expr::col(count).sum().cast_as("bigint"), count);
    }
    select
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "spent/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

//! What was used in a window, by project.

use super::source::{Source, over};
use super::summed::Summed;
use super::sums::Names;
use crate::store::entity::rollups::Column;
use crate::store::{StoreError, UsageStore};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::usage::UsageWindow;
use sea_orm::sea_query::{Expr, ExprTrait, SelectStatement};
use sea_orm::{ConnectionTrait, DbErr, QueryResult};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What was used by a project in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Calls, those that were refused too.
    pub requests: u64,
    /// Requests that were counted in the plan windows: a batch is one.
    pub admitted: u64,
    /// Compute Units charged.
    pub billable_units: u64,
}

impl Spent {
    /// What both have used.
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
    /// What each project of a tenant, or only `project`, has used in `window`. One that has used nothing is not named;
    /// one that was deleted since is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Busy`].
    pub async fn spent(
        &self,
        tenant: TenantId,
        project: Option<ProjectId>,
        window: &UsageWindow,
    ) -> Result<BTreeMap<ProjectId, Spent>, StoreError> {
        let _part = self.shares.of(tenant).await?;
        self.look(async |database| {
            let summed = Summed::read(database).await?;
            let names = Names { project: true, ..Names::default() };
            let sources = Source::all(&summed, tenant, &window.hours(), names, false);
            let parts = sources.iter().map(|source| {
                let mut part = sums(source.select());
                part.and_where_option(
                    project.map(|project| Expr::col(Column::Project).eq(Uuid::from_u128(project.0))),
                );
                part
            });
            let rows = database.query_all(&sums(over(parts))).await?;
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

/// What is counted, in the order of [`Spent`].
const COUNTS: [Column; 3] = [Column::Requests, Column::WindowRequests, Column::BillableUnits];

/// The same for each project: its identifier, and sums that are called as their columns are.
fn sums(mut select: SelectStatement) -> SelectStatement {
    select.column(Column::Project).group_by_col(Column::Project);
    for count in COUNTS {
        // PostgreSQL's sum of bigints is no bigint.
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

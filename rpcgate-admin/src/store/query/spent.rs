//! What was used in a window, by project.

use super::shipment::stored;
use crate::store::entity::rollups::{Column, Entity};
use crate::store::{StoreError, UsageStore};
use crate::usage::Window;
use rpcgate_core::caller::{ProjectId, TenantId};
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
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
    /// [`StoreError::Away`].
    pub async fn spent(
        &self,
        tenant: TenantId,
        project: Option<ProjectId>,
        window: &Window,
    ) -> Result<BTreeMap<ProjectId, Spent>, StoreError> {
        self.read(async |database| {
            let mut sums = Entity::find()
                .select_only()
                .column(Column::Project)
                // PostgreSQL's sum of bigints is no bigint.
                .column_as(Column::Requests.sum().cast_as("bigint"), "calls")
                .column_as(Column::WindowRequests.sum().cast_as("bigint"), "admitted")
                .column_as(Column::BillableUnits.sum().cast_as("bigint"), "units")
                // The hours one by one: see `part` of a usage view.
                .filter(Column::Hour.is_in(window.hours().map(stored)))
                .filter(Column::Tenant.eq(Uuid::from_u128(tenant.0)))
                .group_by(Column::Project);
            if let Some(project) = project {
                sums = sums.filter(Column::Project.eq(Uuid::from_u128(project.0)));
            }
            let rows: Vec<(Uuid, i64, i64, i64)> = sums.into_tuple().all(database).await?;
            let read = |(project, requests, admitted, units): (Uuid, i64, i64, i64)| {
                let spent = Spent {
                    requests: requests.unsigned_abs(),
                    admitted: admitted.unsigned_abs(),
                    billable_units: units.unsigned_abs(),
                };
                (ProjectId(project.as_u128()), spent)
            };
            Ok(rows.into_iter().map(read).collect())
        })
        .await
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "spent/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

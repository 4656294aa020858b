//! The position up to which rollups were added to the sums, so that a month of a large tenant is read from a few
//! thousand rows.
//!
//! Rollups of hours that have ended are added to the sums after shipments, a few thousand at a time. The position is
//! stored in the database: a later shipment for an hour before it is added to the sums in the same transaction. The
//! sums and the rollups after the position thus always equal all rollups. Only speed depends on the position; a
//! database from before sums existed catches up shipment by shipment.

use super::sums::{DAY, LEVELS};
use super::usage_rows::stored;
use super::value::count;
use crate::entity::rollups::{self, Column};
use crate::entity::summed::{self, Entity};
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Rollup;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Order, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryResult};
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// The number of rollups added per transaction, unless one key has more of them in an hour: few enough that shipments
/// hardly wait.
const STEP: u64 = 2_048;

/// The time that the rollups of an ended hour are left alone, because other gateways may still ship some.
const GRACE: Duration = Duration::from_secs(300);

const RETRY_DELAY: Duration = Duration::from_secs(30);

/// The position up to which rollups are summed, hours first, and the first hour for which they are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Summed {
    hour: u64,
    tenant: TenantId,
    /// The key before which this tenant's rollups of the hour are summed too.
    project: ProjectId,
    key: KeyId,
    first: u64,
}

impl Summed {
    pub(super) async fn read(database: &impl ConnectionTrait) -> Result<Self, StoreError> {
        let Some(row) = Entity::find().one(database).await? else { return Ok(Summed::default()) };
        Ok(Summed {
            hour: count("hour", row.hour)?,
            tenant: TenantId(row.tenant.as_u128()),
            project: ProjectId(row.project.unwrap_or_default().as_u128()),
            key: KeyId(row.key.unwrap_or_default().as_u128()),
            first: count("hour", row.first)?,
        })
    }

    #[cfg(test)]
    pub(super) const fn at(hour: u64, tenant: TenantId, first: u64) -> Self {
        Summed { hour, tenant, project: ProjectId(0), key: KeyId(0), first }
    }

    #[cfg(test)]
    pub(super) const fn within(self, project: ProjectId, key: KeyId) -> Self {
        Summed { project, key, ..self }
    }

    /// Returns the day whose sums contain only a part of an hour of the tenant.
    pub(super) fn partial_day(&self, tenant: TenantId) -> Option<u64> {
        let is_partial = self.tenant == tenant && (self.project, self.key) != (ProjectId(0), KeyId(0));
        is_partial.then_some(self.hour - self.hour % DAY)
    }

    fn begin(&self) -> (u64, Position) {
        (self.hour, [self.tenant.0, self.project.0, self.key.0].map(Uuid::from_u128))
    }

    pub(super) fn rest(&self) -> Condition {
        let (hour, begin) = self.begin();
        // The hour is compared separately as well, so that the index is used.
        Condition::all()
            .add(Expr::col(Column::Hour).gte(stored(hour)))
            .add(position_columns().gte(position(hour, begin)))
    }

    /// Returns the first hour of a tenant that is not completely summed.
    pub(super) fn end(&self, tenant: TenantId) -> u64 {
        if tenant.0 < self.tenant.0 { self.hour.saturating_add(1) } else { self.hour }
    }

    /// Returns the first hour that is not completely summed for all tenants.
    pub(super) const fn whole_until(&self) -> u64 {
        self.hour
    }

    /// Returns the first hour for which sums are kept. Some rollups before it may have been removed while the sums of
    /// their day still contain them.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Adds newly stored `rollups` of hours that are already summed.
    pub(super) async fn add(
        &self,
        transaction: &DatabaseTransaction,
        rollups: &[Rollup],
    ) -> Result<(), StoreError> {
        let end = (self.hour, self.tenant.0, self.project.0, self.key.0);
        let late = |rollup: &&Rollup| (rollup.hour, rollup.tenant.0, rollup.project.0, rollup.key.0) < end;
        let late: Vec<&Rollup> = rollups.iter().filter(late).collect();
        if late.is_empty() {
            return Ok(());
        }
        for level in &LEVELS {
            level.add(transaction, &late).await?;
        }
        Ok(())
    }

    async fn advance_to(
        &self,
        transaction: &DatabaseTransaction,
        (hour, [tenant, project, key]): (u64, Position),
    ) -> Result<(), StoreError> {
        let update = Entity::update_many()
            .col_expr(summed::Column::Hour, Expr::value(stored(hour)))
            .col_expr(summed::Column::Tenant, Expr::value(tenant))
            .col_expr(summed::Column::Project, Expr::value(project))
            .col_expr(summed::Column::Key, Expr::value(key));
        update.exec(transaction).await?;
        Ok(())
    }
}

type Position = [Uuid; 3];

/// Returns hour, tenant, project and key of a rollup as one value, in the order of storage.
fn position_columns() -> Expr {
    Expr::tuple([Column::Hour, Column::Tenant, Column::Project, Column::Key].map(Expr::col))
}

fn position(hour: u64, [tenant, project, key]: Position) -> Expr {
    Expr::tuple([stored(hour).into(), tenant.into(), project.into(), key.into()])
}

fn read_position(row: &QueryResult) -> Result<(u64, Position), StoreError> {
    let ids = [row.try_get_by_index(1)?, row.try_get_by_index(2)?, row.try_get_by_index(3)?];
    Ok((count("hour", row.try_get_by_index(0)?)?, ids))
}

fn after((hour, [tenant, project, key]): (u64, Position)) -> (u64, Position) {
    let next = |id: Uuid| id.as_u128().checked_add(1).map(Uuid::from_u128);
    let nil = Uuid::nil();
    match (next(key), next(project), next(tenant)) {
        (Some(key), _, _) => (hour, [tenant, project, key]),
        (None, Some(project), _) => (hour, [tenant, project, nil]),
        (None, None, Some(tenant)) => (hour, [tenant, nil, nil]),
        (None, None, None) => (hour + 1, [nil; 3]),
    }
}

impl UsageStore {
    /// Makes a step after a shipment that read this position, if one is due. A failure does not affect the shipment.
    pub(super) async fn sum_after(&self, summed: &Summed, newest: Time) {
        let over = newest.minus(GRACE).hour();
        let micros = newest.micros();
        if summed.hour >= over || micros < self.sums_retry_at.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.sum(over, STEP).await {
            // A persistent error must not delay every shipment.
            self.sums_retry_at
                .store(micros.saturating_add(RETRY_DELAY.as_micros() as u64), Ordering::Relaxed);
            tracing::warn!(%error, "rollups could not be summed; views of long windows are slower until they are");
        }
    }

    /// Adds at most `rows` rollups of hours before `over` to the sums, or more if one key has more in an hour. Reports
    /// whether more may be left.
    pub(crate) async fn sum(&self, over: u64, rows: u64) -> Result<bool, StoreError> {
        self.write(async |transaction| {
            let summed = Summed::read(transaction).await?;
            if summed.hour >= over {
                return Ok(false);
            }
            let rest = summed.rest().add(Expr::col(Column::Hour).lt(stored(over)));
            let order = [Column::Hour, Column::Tenant, Column::Project, Column::Key];
            let mut next = Query::select();
            next.columns(order).from(rollups::Entity).cond_where(rest.clone());
            for name in order {
                next.order_by(name, Order::Asc);
            }
            let next = transaction.query_one(next.offset(rows).limit(1)).await?;
            let next: Option<(u64, Position)> = next.map(|row| read_position(&row)).transpose()?;
            let end = match next {
                None => (over, [Uuid::nil(); 3]),
                // The rollups of a key are not split.
                Some(next) if next == summed.begin() => after(next),
                Some(next) => next,
            };
            for level in &LEVELS {
                level
                    .add_where(transaction, rest.clone().add(position_columns().lt(position(end.0, end.1))))
                    .await?;
            }
            summed.advance_to(transaction, end).await?;
            Ok(next.is_some())
        })
        .await
    }

    pub(super) async fn set_first_hour(&self, first: u64) -> Result<(), StoreError> {
        self.remove_old(async |transaction| {
            let update = Entity::update_many()
                .col_expr(summed::Column::First, Expr::value(stored(first)))
                .filter(summed::Column::First.lt(stored(first)));
            update.exec(transaction).await?;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "summed/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

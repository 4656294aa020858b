//! Which rollups the sums hold, so that a month of a large tenant is read from some thousand rows.
//!
//! Rollups of hours that are over are added to the sums after shipments, a few thousand at a time. How far that has come
//! stands in the database: what is shipped for an hour after that is added to its sums in the same transaction. So at
//! every moment the sums, and the rollups that are not in them yet, are together what all rollups come to. Nothing but
//! speed depends on how far it has come; a database from before there were sums gets there shipment by shipment.

use super::sums::{DAY, LEVELS};
use super::usage_rows::stored;
use super::value::count;
use crate::store::entity::rollups::{self, Column};
use crate::store::entity::summed::{self, Entity};
use crate::store::{StoreError, UsageStore};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Rollup;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Order, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryResult};
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// Rollups of one step, if no key has more of them in an hour: few enough that shipments hardly wait.
const STEP: u64 = 2_048;

/// For so long after an hour is over its rollups are left alone: other gateways may still ship some.
const PATIENCE: Duration = Duration::from_secs(300);

/// After a step that failed there is none for so long.
const REST: Duration = Duration::from_secs(30);

/// Up to where rollups are summed, hours first, and from where on they are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Summed {
    hour: u64,
    tenant: TenantId,
    /// Of the tenant's rollups of the hour those of the keys before this one are summed too.
    project: ProjectId,
    key: KeyId,
    first: u64,
}

impl Summed {
    /// How it stands.
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

    /// The same, with so much of the tenant's hour.
    #[cfg(test)]
    pub(super) const fn within(self, project: ProjectId, key: KeyId) -> Self {
        Summed { project, key, ..self }
    }

    /// The day of which the sums hold some of an hour of the tenant, and not all.
    pub(super) fn torn_day(&self, tenant: TenantId) -> Option<u64> {
        let is_torn = self.tenant == tenant && (self.project, self.key) != (ProjectId(0), KeyId(0));
        is_torn.then_some(self.hour - self.hour % DAY)
    }

    /// The first place that is not summed.
    fn begin(&self) -> (u64, Place) {
        (self.hour, [self.tenant.0, self.project.0, self.key.0].map(Uuid::from_u128))
    }

    /// The rollups that are not in the sums.
    pub(super) fn rest(&self) -> Condition {
        let (hour, begin) = self.begin();
        // The hour by itself as well: that is what an index is looked through by.
        Condition::all().add(Expr::col(Column::Hour).gte(stored(hour))).add(place().gte(at(hour, begin)))
    }

    /// The first hour of a tenant that is not summed.
    pub(super) fn end(&self, tenant: TenantId) -> u64 {
        if tenant.0 < self.tenant.0 { self.hour.saturating_add(1) } else { self.hour }
    }

    /// The first hour of which sums are kept. Some rollups before it may have been removed, and are still in the sums of
    /// their day.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Adds those of `rollups`, which were just added to the others, that belong to hours that are summed.
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

    async fn move_to(
        &self,
        transaction: &DatabaseTransaction,
        (hour, [tenant, project, key]): (u64, Place),
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

/// Tenant, project and key.
type Place = [Uuid; 3];

/// Hour, tenant, project and key of a rollup, as one place in the order in which they are stored.
fn place() -> Expr {
    Expr::tuple([Column::Hour, Column::Tenant, Column::Project, Column::Key].map(Expr::col))
}

fn at(hour: u64, [tenant, project, key]: Place) -> Expr {
    Expr::tuple([stored(hour).into(), tenant.into(), project.into(), key.into()])
}

fn read_place(row: &QueryResult) -> Result<(u64, Place), StoreError> {
    let ids = [row.try_get_by_index(1)?, row.try_get_by_index(2)?, row.try_get_by_index(3)?];
    Ok((count("hour", row.try_get_by_index(0)?)?, ids))
}

/// The place behind all rollups of a key in an hour.
fn behind((hour, [tenant, project, key]): (u64, Place)) -> (u64, Place) {
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
    /// Makes a step after a shipment that left it so, if there is one to make. It is no part of the shipment: that was
    /// taken, whatever becomes of this.
    pub(super) async fn sum_after(&self, summed: &Summed, newest: Time) {
        let over = Time::from_micros(newest.micros().saturating_sub(PATIENCE.as_micros() as u64)).hour();
        let micros = newest.micros();
        if summed.hour >= over || micros < self.sums_rest_until.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.sum(over, STEP).await {
            // Whatever keeps it from that is not to keep shipments waiting every time.
            self.sums_rest_until.store(micros.saturating_add(REST.as_micros() as u64), Ordering::Relaxed);
            tracing::warn!(%error, "rollups were not summed; views of long times take longer until they are");
        }
    }

    /// Adds some rollups of hours before `over` to the sums, `rows` if no key has more in an hour: whether there may be
    /// more of them.
    pub(in crate::store) async fn sum(&self, over: u64, rows: u64) -> Result<bool, StoreError> {
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
            let next: Option<(u64, Place)> = next.map(|row| read_place(&row)).transpose()?;
            let end = match next {
                None => (over, [Uuid::nil(); 3]),
                // A key is not taken apart.
                Some(next) if next == summed.begin() => behind(next),
                Some(next) => next,
            };
            for level in &LEVELS {
                level.take_in(transaction, rest.clone().add(place().lt(at(end.0, end.1)))).await?;
            }
            summed.move_to(transaction, end).await?;
            Ok(next.is_some())
        })
        .await
    }

    /// From now on sums are kept from hour `first` on.
    pub(super) async fn keep_sums(&self, first: u64) -> Result<(), StoreError> {
        self.retire(async |transaction| {
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

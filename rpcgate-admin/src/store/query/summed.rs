//! Which rollups the sums hold, so that a month of a large tenant is read from some thousand rows.
//!
//! Rollups of hours that are over are added to the sums after shipments, a few thousand at a time. How far that has come
//! stands in the database: what is shipped for an hour after that is added to its sums in the same transaction. So at
//! every moment the sums, and the rollups that are not in them yet, are together what all rollups come to. Nothing but
//! speed depends on how far it has come; a database from before there were sums gets there shipment by shipment.

use super::shipment::stored;
use super::sums::LEVELS;
use super::value::count;
use crate::store::entity::rollups::{self, Column};
use crate::store::entity::summed::{self, Entity};
use crate::store::{StoreError, UsageStore};
use crate::usage::Rollup;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Order, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// Rollups of one step, if no tenant has more of them in an hour: few enough that shipments hardly wait.
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
    first: u64,
}

impl Summed {
    /// How it stands.
    pub(super) async fn read(database: &impl ConnectionTrait) -> Result<Self, StoreError> {
        let Some(row) = Entity::find().one(database).await? else { return Ok(Summed::default()) };
        Ok(Summed {
            hour: count("hour", row.hour)?,
            tenant: TenantId(row.tenant.as_u128()),
            first: count("hour", row.first)?,
        })
    }

    #[cfg(test)]
    pub(super) const fn at(hour: u64, tenant: TenantId, first: u64) -> Self {
        Summed { hour, tenant, first }
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
        let late = |rollup: &&Rollup| rollup.hour < self.end(rollup.tenant);
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
        hour: u64,
        tenant: Uuid,
    ) -> Result<(), StoreError> {
        let update = Entity::update_many()
            .col_expr(summed::Column::Hour, Expr::value(stored(hour)))
            .col_expr(summed::Column::Tenant, Expr::value(tenant));
        update.exec(transaction).await?;
        Ok(())
    }
}

/// Hour and tenant of a rollup, as one place in the order in which they are stored.
fn place() -> Expr {
    Expr::tuple([Expr::col(Column::Hour), Expr::col(Column::Tenant)])
}

fn at(hour: u64, tenant: Uuid) -> Expr {
    Expr::tuple([stored(hour).into(), tenant.into()])
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

    /// Adds some rollups of hours before `over` to the sums, `rows` if no tenant has more in an hour: whether there may
    /// be more of them.
    pub(super) async fn sum(&self, over: u64, rows: u64) -> Result<bool, StoreError> {
        self.write(async |transaction| {
            let summed = Summed::read(transaction).await?;
            if summed.hour >= over {
                return Ok(false);
            }
            let begin = Uuid::from_u128(summed.tenant.0);
            let rest = Condition::all()
                .add(place().gte(at(summed.hour, begin)))
                .add(Expr::col(Column::Hour).lt(stored(over)));
            let mut next = Query::select();
            next.columns([Column::Hour, Column::Tenant]).from(rollups::Entity).cond_where(rest.clone());
            next.order_by(Column::Hour, Order::Asc).order_by(Column::Tenant, Order::Asc);
            let next = transaction.query_one(next.offset(rows).limit(1)).await?;
            let next: Option<(i64, Uuid)> = next
                .map(|row| Ok::<_, StoreError>((row.try_get_by_index(0)?, row.try_get_by_index(1)?)))
                .transpose()?;
            let end = match next {
                None => (over, Uuid::nil()),
                // A tenant is not taken apart: whoever reads it needs one hour up to which it is summed.
                Some((hour, tenant)) if (hour, tenant) == (stored(summed.hour), begin) => {
                    match summed.tenant.0.checked_add(1) {
                        Some(tenant) => (summed.hour, Uuid::from_u128(tenant)),
                        None => (summed.hour + 1, Uuid::nil()),
                    }
                }
                Some((hour, tenant)) => (count("hour", hour)?, tenant),
            };
            for level in &LEVELS {
                level.take_in(transaction, rest.clone().add(place().lt(at(end.0, end.1)))).await?;
            }
            summed.move_to(transaction, end.0, end.1).await?;
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

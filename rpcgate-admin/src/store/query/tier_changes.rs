//! The history of tenants' plans.

use super::value::{moment, tier, time};
use crate::store::entity::tier_changes::{ActiveModel, Column, Entity};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};
use uuid::Uuid;

/// A change of a tenant's plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierChange {
    /// When it took effect.
    pub at: Time,
    /// The plan before.
    pub before: Tier,
    /// The plan since then.
    pub after: Tier,
}

/// Records a change of plan in the transaction that makes it.
pub(super) async fn record_tier_change(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    (before, after): (Tier, Tier),
    now: Time,
) -> Result<(), StoreError> {
    if before == after {
        return Ok(());
    }
    let row = ActiveModel {
        number: NotSet,
        tenant_id: Set(Uuid::from_u128(tenant.0)),
        at: Set(moment(now)),
        before: Set(before.name().into()),
        after: Set(after.name().into()),
    };
    Entity::insert(row).exec_without_returning(transaction).await?;
    Ok(())
}

impl Store {
    /// The changes of a tenant's plan at `from` and later, in their order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tier_changes(&self, tenant: TenantId, from: Time) -> Result<Vec<TierChange>, StoreError> {
        self.read(async |database| {
            let its = Column::TenantId.eq(Uuid::from_u128(tenant.0));
            let changes = Entity::find().filter(its).filter(Column::At.gte(moment(from)));
            let rows = changes.order_by_asc(Column::At).order_by_asc(Column::Number).all(database).await?;
            let read = |row: &crate::store::entity::tier_changes::Model| {
                Ok(TierChange { at: time(row.at), before: tier(&row.before)?, after: tier(&row.after)? })
            };
            rows.iter().map(read).collect()
        })
        .await
    }
}

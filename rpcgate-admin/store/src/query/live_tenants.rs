//! Tenants that are not deleted.

use crate::StoreError;
use crate::entity::tenants::{Column, Entity, Model};
use rpcgate_core::caller::TenantId;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, Select};

/// Selects the tenants that are not deleted. The row of a deleted one stays for some time, or while it has invoices.
pub(super) fn live_tenants() -> Select<Entity> {
    Entity::find().filter(Column::DeletedAt.is_null())
}

pub(super) async fn live_tenant(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
) -> Result<Model, StoreError> {
    let found = live_tenants().filter(Column::Id.eq(tenant)).one(transaction).await?;
    found.ok_or(StoreError::NotFound("tenant"))
}

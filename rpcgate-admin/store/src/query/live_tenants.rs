//! Tenants that are not deleted.

use crate::StoreError;
use crate::entity::tenants::{Column, Entity, Model};
use rpcgate_core::caller::TenantId;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, Select};
use uuid::Uuid;

/// All of them. A deleted one may be in the table for some time, or for as long as there are invoices of it.
pub(super) fn live_tenants() -> Select<Entity> {
    Entity::find().filter(Column::DeletedAt.is_null())
}

/// A tenant that is not deleted.
pub(super) async fn live_tenant(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
) -> Result<Model, StoreError> {
    let found = live_tenants().filter(Column::Id.eq(Uuid::from_u128(tenant.0))).one(transaction).await?;
    found.ok_or(StoreError::NotFound("tenant"))
}

//! The billing state of tenants.

use crate::StoreError;
use crate::entity::billing_accounts::{Column, Entity};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};

/// Detaches a suspension from its debt: payments no longer end it, and no reminder mentions it.
pub(super) async fn forget_suspension(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
) -> Result<(), StoreError> {
    let update = Entity::update_many()
        .col_expr(Column::SuspendedAt, Expr::value(None::<Time>))
        .filter(Column::TenantId.eq(tenant));
    update.exec(transaction).await?;
    Ok(())
}

//! The billing position of each tenant, and its suspension because of a debt.

use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "billing_accounts")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tenant_id: TenantId,
    /// The start of the first month that is not closed.
    pub(crate) closed_until: Time,
    /// The time of a suspension because of a debt. Null after a payment, or after an operator decided about the
    /// suspension.
    pub(crate) suspended_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Organisations, which pay for their usage.

use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "tenants")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: TenantId,
    pub(crate) name: String,
    pub(crate) tier: Tier,
    pub(crate) suspended: bool,
    pub(crate) created_at: Time,
    #[sea_orm(default_value = false)]
    pub(crate) requires_factor: bool,
    /// Its custom plan, whose base is `tier`.
    pub(crate) custom_plan_id: Option<CustomPlanId>,
    /// The time of its deletion, after which only the sweep uses it.
    pub(crate) deleted_at: Option<Time>,
    /// True if it was deleted and only its invoices are left.
    #[sea_orm(default_value = false)]
    pub(crate) is_empty: bool,
    pub(crate) billing_name: Option<String>,
    /// The lines of the address on invoices, a JSON array.
    #[sea_orm(default_value = "[]")]
    pub(crate) billing_address: String,
    pub(crate) billing_tax_id: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

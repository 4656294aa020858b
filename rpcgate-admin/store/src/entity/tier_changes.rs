//! The changes of tenants' plans, from which fees are computed.

use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "tier_changes")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub(crate) number: i64,
    pub(crate) tenant_id: TenantId,
    pub(crate) at: Time,
    pub(crate) before: Tier,
    pub(crate) after: Tier,
    pub(crate) custom_before: Option<CustomPlanId>,
    pub(crate) custom_after: Option<CustomPlanId>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The fees of plans and the times from which they apply.

use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "plan_fees")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub(crate) number: i64,
    /// The plan, or the base of the plan.
    pub(crate) tier: Tier,
    pub(crate) custom_plan_id: Option<CustomPlanId>,
    /// The start of the first day on which the fee applies.
    pub(crate) since: Time,
    /// The fee for a month; null for the fee of the base, or the configured one.
    pub(crate) cents: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

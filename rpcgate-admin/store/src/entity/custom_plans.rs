//! Custom plans.

use crate::query::Figures;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "custom_plans")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: CustomPlanId,
    pub(crate) name: String,
    /// The built-in plan that supplies the other figures.
    pub(crate) base_tier: Tier,
    pub(crate) visible: bool,
    /// A JSON object with the given figures by their names.
    #[sea_orm(column_type = "Text")]
    pub(crate) figures: Figures,
    pub(crate) created_at: Time,
    /// Invoices need a plan for some time after its deletion.
    pub(crate) deleted_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

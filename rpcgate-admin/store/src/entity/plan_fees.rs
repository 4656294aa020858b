//! The fees of plans and the times since which they hold.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "plan_fees")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub(crate) number: i64,
    /// The plan, or the base of the plan.
    pub(crate) tier: String,
    /// The plan, if it is one of an operator's own.
    pub(crate) custom_plan_id: Option<Uuid>,
    /// The begin of the day from which on the fee holds.
    pub(crate) since: i64,
    /// For a month; null for a plan that has the fee of its base, or the configured one.
    pub(crate) cents: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

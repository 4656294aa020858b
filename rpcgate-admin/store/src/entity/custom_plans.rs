//! Custom plans.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "custom_plans")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) name: String,
    /// The built-in plan that supplies the other figures.
    pub(crate) base_tier: String,
    pub(crate) visible: bool,
    /// A JSON object with the given figures by their names.
    #[sea_orm(column_type = "Text")]
    pub(crate) figures: String,
    pub(crate) created_at: i64,
    /// Invoices need a plan for some time after its deletion.
    pub(crate) deleted_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Figures that override those of a tenant's plan for a period.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "contracts")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) starts_at: i64,
    pub(crate) ends_at: Option<i64>,
    /// A JSON object with the given figures by their names.
    #[sea_orm(column_type = "Text")]
    pub(crate) figures: String,
    #[sea_orm(column_type = "Text")]
    pub(crate) note: String,
    pub(crate) created_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

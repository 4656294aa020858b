//! The changes of tenants' plans, from which fees are computed.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "tier_changes")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub(crate) number: i64,
    pub(crate) tenant_id: Uuid,
    pub(crate) at: i64,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) custom_before: Option<Uuid>,
    pub(crate) custom_after: Option<Uuid>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

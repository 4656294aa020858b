//! Calls of tenants that were refused with 429 in a UTC minute.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "minute_refusals")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) minute: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tenant: Uuid,
    pub(crate) calls: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

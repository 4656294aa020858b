//! The keys whose events a block contains, with the arrival of these events.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "block_keys")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) block: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tenant: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) project: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) key: Uuid,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Keys with limits that a gateway has scaled down, according to its last report. The tenant is first in the key
//! because tenants query the table; an index by gateway serves the next report.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "throttled_keys")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tenant: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) key: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) gateway: Uuid,
    pub(crate) project: Uuid,
    pub(crate) percent: i64,
    pub(crate) ends_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

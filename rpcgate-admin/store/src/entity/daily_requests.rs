//! Requests that tenants' plan windows have counted in a UTC day. Rollups contain the same in many rows, and every
//! shipment needs the number for notifications.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "daily_requests")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) day: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tenant: Uuid,
    pub(crate) requests: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

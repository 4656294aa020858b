//! The positions up to which the segments of gateways' journals are shipped.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "marks")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) gateway: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) segment: Uuid,
    /// The position in bytes from the segment's start.
    pub(crate) position: i64,
    /// The last UTC hour of anything shipped from it.
    #[sea_orm(default_value = 0)]
    pub(crate) hour: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

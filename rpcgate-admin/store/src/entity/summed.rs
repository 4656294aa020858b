//! The position up to which rollups are in the sums: one row, which the migration creates.

use sea_orm::entity::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "summed")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: i16,
    /// All rollups of hours before this one are in the sums.
    pub(crate) hour: i64,
    /// The tenant before which the rollups of this hour are in the sums.
    pub(crate) tenant: Uuid,
    /// The project before which the rollups of this tenant are in the sums; null for none of them.
    pub(crate) project: Option<Uuid>,
    /// The key before which the rollups of this project are in the sums; null for none of them.
    pub(crate) key: Option<Uuid>,
    /// The first hour with sums; older rollups may have been removed.
    pub(crate) first: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

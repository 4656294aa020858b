//! The position up to which rollups are in the sums: one row, which the migration creates.

use sea_orm::entity::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "summed")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: i16,
    /// All rollups of hours before this one are in the sums.
    pub(crate) hour: i64,
    /// Of this hour, those of the tenants before this one.
    pub(crate) tenant: Uuid,
    /// Of this tenant, those of the projects before this one; null means none.
    pub(crate) project: Option<Uuid>,
    /// Of this project, those of the keys before this one; null means none.
    pub(crate) key: Option<Uuid>,
    /// Sums are kept from this hour on; older rollups may have been removed.
    pub(crate) first: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

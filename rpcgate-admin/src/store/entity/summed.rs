//! Which rollups the sums hold. It is one row, which the migration makes.

use sea_orm::entity::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "summed")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: i16,
    /// All rollups of hours before this one are in the sums.
    pub(crate) hour: i64,
    /// And of this hour those of the tenants before this one.
    pub(crate) tenant: Uuid,
    /// And of this tenant those of the projects before this one; null: none.
    pub(crate) project: Option<Uuid>,
    /// And of this project those of the keys before this one; null: none.
    pub(crate) key: Option<Uuid>,
    /// From this hour on: older rollups may have been removed.
    pub(crate) first: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The notifications that a user has read. The notifications themselves are in the usage database, because shipments
//! raise them.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "notification_reads")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) user_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) notification: Uuid,
    pub(crate) read_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The times of the last notifications that an endpoint fails, that it works again, and that its events are withheld.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_notices")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) webhook_id: Uuid,
    pub(crate) failing_at: Option<i64>,
    pub(crate) working_at: Option<i64>,
    /// The time when an event was last withheld from it, because too many of its deliveries waited.
    pub(crate) withheld_at: Option<i64>,
    pub(crate) withheld_told_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

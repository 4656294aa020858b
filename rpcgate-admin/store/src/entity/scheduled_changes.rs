//! Changes of the built-in plans that take effect later.

use crate::query::{Figures, ScheduledChangeId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "scheduled_changes")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: ScheduledChangeId,
    pub(crate) tier: Tier,
    pub(crate) effective_at: Time,
    /// A JSON object with the given figures by their names.
    #[sea_orm(column_type = "Text")]
    pub(crate) figures: Figures,
    pub(crate) created_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Replays whose deliveries are not all made yet.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_replays")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) webhook_id: Uuid,
    /// What the endpoint was sent of events stored from this time,
    pub(crate) stored_from: i64,
    /// until before this one.
    pub(crate) stored_until: i64,
    /// The time and the identifier of the last delivery that was repeated; null before the first step.
    pub(crate) after_at: Option<i64>,
    pub(crate) after_id: Option<Uuid>,
    /// Deliveries that are still to be made, as counted when the replay was asked for.
    pub(crate) remaining: i64,
    pub(crate) created_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

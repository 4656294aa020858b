//! Replays whose deliveries are not all made yet.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_replays")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) webhook_id: Uuid,
    /// The time from which the replayed events were stored.
    pub(crate) stored_from: i64,
    /// The exclusive end of that period.
    pub(crate) stored_until: i64,
    /// The time and the identifier of the last repeated delivery; null before the first step.
    pub(crate) after_at: Option<i64>,
    pub(crate) after_id: Option<Uuid>,
    /// The number of deliveries still to make, as counted when the replay was requested.
    pub(crate) remaining: i64,
    pub(crate) created_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The notifications that a user has read. The notifications themselves are in the usage database, because shipments
//! raise them.

use crate::query::{NotificationId, UserId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "notification_reads")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) user_id: UserId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) notification: NotificationId,
    pub(crate) read_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The devices from which users have logged in.

use crate::query::UserId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "known_devices")]
pub(crate) struct Model {
    /// The digest of the user and the text that identifies the device.
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) digest: Vec<u8>,
    pub(crate) user_id: UserId,
    pub(crate) seen_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

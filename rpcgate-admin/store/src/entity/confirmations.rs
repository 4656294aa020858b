//! Pending confirmations of addresses: one token for each user, by its hash.

use crate::query::UserId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "confirmations")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) user_id: UserId,
    #[sea_orm(unique)]
    pub(crate) hash: Vec<u8>,
    pub(crate) expires_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

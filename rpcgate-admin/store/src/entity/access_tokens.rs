//! Personal access tokens, by the digest of their text.

use crate::query::{AccessTokenId, UserId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "access_tokens")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: AccessTokenId,
    pub(crate) user_id: UserId,
    #[sea_orm(unique)]
    pub(crate) hash: Vec<u8>,
    pub(crate) name: String,
    pub(crate) scopes: String,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
    pub(crate) used_at: Option<Time>,
    pub(crate) used_from: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

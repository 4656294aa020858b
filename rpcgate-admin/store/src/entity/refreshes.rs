//! Refresh tokens of sessions, by their hashes. A used token stays until it would have expired, so that its reuse is
//! detected.

use crate::query::SessionId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "refreshes")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) hash: Vec<u8>,
    pub(crate) session_id: SessionId,
    pub(crate) expires_at: Time,
    pub(crate) used: bool,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

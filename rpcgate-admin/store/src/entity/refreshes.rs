//! Refresh tokens of sessions, by their hashes. A used token stays until it would have expired, so that its reuse is
//! detected.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "refreshes")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) hash: Vec<u8>,
    pub(crate) session_id: Uuid,
    pub(crate) expires_at: i64,
    pub(crate) used: bool,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

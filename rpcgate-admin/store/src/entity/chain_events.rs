//! The log of events: those that a subscription matched, and test events.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "chain_events")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) chain: String,
    pub(crate) event_type: String,
    pub(crate) block_num: i64,
    pub(crate) block_hash: String,
    /// True if it takes back an earlier event, whose block is no longer part of the chain.
    pub(crate) removed: bool,
    pub(crate) body: Vec<u8>,
    pub(crate) created_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

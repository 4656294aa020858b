//! The watcher of each chain, and the last reported phase of its health.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "watched_chains")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) chain: String,
    pub(crate) watcher: Option<Uuid>,
    pub(crate) watched_until: i64,
    /// The last reported phase of its health; empty if it was never known.
    pub(crate) phase: String,
    /// The height up to which blocks replace others, which were taken back; null for none.
    pub(crate) replaced_until: Option<i64>,
    pub(crate) appended_at: i64,
    pub(crate) updated_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

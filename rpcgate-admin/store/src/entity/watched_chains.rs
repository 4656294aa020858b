//! Which watcher follows a chain, and the phase of its health that was told of last.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "watched_chains")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) chain: String,
    pub(crate) watcher: Option<Uuid>,
    /// When the lease of the watcher ends.
    pub(crate) watched_until: i64,
    /// The phase of its health that was told of last; empty if none was known yet.
    pub(crate) phase: String,
    /// Blocks up to this height replace others, which were taken back; null if none do.
    pub(crate) replaced_until: Option<i64>,
    /// When the last block was appended.
    pub(crate) appended_at: i64,
    pub(crate) updated_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

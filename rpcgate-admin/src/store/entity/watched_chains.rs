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
    pub(crate) phase: String,
    /// Probes in a row without a fit node.
    pub(crate) missed: Option<i32>,
    pub(crate) updated_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The newest followed blocks of each chain; following continues at the highest.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "followed_blocks")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) chain: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) height: i64,
    pub(crate) hash: String,
    pub(crate) parent: String,
    pub(crate) timestamp: i64,
    pub(crate) place: String,
    /// `whole`, `appending` while its deliveries are being made, or `leaving` while they are being taken back. Both may
    /// take several transactions.
    pub(crate) state: String,
    /// The time when it was appended, unique among the blocks of the chain; its events have this time.
    pub(crate) appended_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

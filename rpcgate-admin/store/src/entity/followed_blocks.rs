//! The newest blocks of each chain that were followed; the highest is where following continues.

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
    /// `whole`; `appending` while its deliveries are being made, `leaving` while they are being taken back: these may take
    /// several transactions.
    pub(crate) state: String,
    /// When it was appended, which no other block of the chain was: its events have this time.
    pub(crate) appended_at: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

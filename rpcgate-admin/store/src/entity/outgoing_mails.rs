//! Mails that wait to be sent.

use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "outgoing_mails")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) recipient: Vec<u8>,
    /// Sealed, because mails contain tokens.
    pub(crate) content: Vec<u8>,
    pub(crate) tries: i32,
    pub(crate) created_at: Time,
    pub(crate) due_at: Time,
    pub(crate) expires_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

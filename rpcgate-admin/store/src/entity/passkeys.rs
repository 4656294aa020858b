//! Passkeys of users.

use crate::query::{PasskeyId, UserId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "passkeys")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: PasskeyId,
    pub(crate) user_id: UserId,
    #[sea_orm(unique)]
    pub(crate) credential: Vec<u8>,
    pub(crate) name: String,
    /// The public key with its counter, as JSON.
    pub(crate) passkey: String,
    /// The number of writes of the row. A write expects the number that it has read.
    pub(crate) uses: i64,
    pub(crate) created_at: Time,
    pub(crate) used_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Authenticator apps of users: one for each user, not a factor until it is activated.

use crate::query::UserId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "totp")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) user_id: UserId,
    pub(crate) sealed: Vec<u8>,
    pub(crate) last_step: i64,
    /// Null until a first code has proven that the app has the secret.
    pub(crate) activated_at: Option<Time>,
    pub(crate) created_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

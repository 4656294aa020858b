//! Passkeys of users.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "passkeys")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    #[sea_orm(unique)]
    pub(crate) credential: Vec<u8>,
    pub(crate) name: String,
    /// The public key with its counter, as JSON.
    pub(crate) passkey: String,
    /// The number of writes of the row. A write expects the number that it has read.
    pub(crate) uses: i64,
    pub(crate) created_at: i64,
    pub(crate) used_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Personal access tokens, by the digest of their text.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "access_tokens")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    #[sea_orm(unique)]
    pub(crate) hash: Vec<u8>,
    pub(crate) name: String,
    pub(crate) scopes: String,
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) used_at: Option<i64>,
    pub(crate) used_from: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

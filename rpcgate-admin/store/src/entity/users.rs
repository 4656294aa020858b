//! Users. An address is stored in lower case, so that it is unique in any spelling.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    /// Null for an operator.
    pub(crate) tenant_id: Option<Uuid>,
    #[sea_orm(unique)]
    pub(crate) email: String,
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) password: Option<String>,
    pub(crate) confirmed_at: Option<i64>,
    pub(crate) created_at: i64,
    pub(crate) disabled_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

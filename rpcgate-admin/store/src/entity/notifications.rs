//! Notifications of tenants. An index allows each tenant one notification of a kind for the same day or minute.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "notifications")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) tenant: Uuid,
    pub(crate) notice: String,
    pub(crate) since: i64,
    pub(crate) at: i64,
    /// Requests of the day, or calls refused in the minute.
    pub(crate) counted: i64,
    pub(crate) allowed: Option<i64>,
    pub(crate) mailed_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Notifications of tenants. An index allows each tenant one notification of a kind for the same day or minute.

use crate::query::NotificationId;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Notice;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "notifications")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: NotificationId,
    pub(crate) tenant: TenantId,
    pub(crate) notice: Notice,
    pub(crate) since: Time,
    pub(crate) at: Time,
    /// Requests of the day, or calls refused in the minute.
    pub(crate) counted: i64,
    pub(crate) allowed: Option<i64>,
    pub(crate) mailed_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The audit log. Numbers rise in the order of commits.

use crate::query::UserId;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "audit")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub(crate) number: i64,
    pub(crate) tenant_id: Option<TenantId>,
    pub(crate) user_id: Option<UserId>,
    pub(crate) action: String,
    pub(crate) subject: String,
    pub(crate) address: String,
    pub(crate) at: Time,
    pub(crate) detail: String,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

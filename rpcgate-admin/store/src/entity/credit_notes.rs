//! Credit notes, each for one invoice.

use crate::query::UserId;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "credit_notes")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) year: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) serial: i64,
    pub(crate) invoice_year: i32,
    pub(crate) invoice_serial: i64,
    pub(crate) tenant_id: TenantId,
    pub(crate) issued_at: Time,
    pub(crate) net_cents: i64,
    pub(crate) tax_cents: i64,
    pub(crate) cents: i64,
    pub(crate) reason: String,
    pub(crate) user_id: Option<UserId>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

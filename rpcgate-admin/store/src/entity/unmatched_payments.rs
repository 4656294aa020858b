//! Payments that completed nothing.

use crate::query::CheckoutId;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "unmatched_payments")]
pub(crate) struct Model {
    /// A UUID that orders payments by the time of their reports.
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    /// The provider's identifier. An index allows each once, so that a payment that is reported twice is recorded once.
    #[sea_orm(unique)]
    pub(crate) session: String,
    pub(crate) received_at: Time,
    pub(crate) checkout_id: Option<CheckoutId>,
    pub(crate) tenant_id: Option<TenantId>,
    pub(crate) invoice_year: Option<i32>,
    pub(crate) invoice_serial: Option<i64>,
    /// The amount in hundredths of the currency.
    pub(crate) cents: i64,
    pub(crate) currency: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

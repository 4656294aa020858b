//! Invoices. An index allows each tenant one invoice per period.

use crate::query::named::named_values;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

/// The stored status of an invoice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InvoiceStatus {
    /// Not paid.
    Open,
    /// Paid, or nothing is owed any more.
    Paid,
    /// Cancelled.
    Void,
}

impl InvoiceStatus {
    pub(crate) const ALL: [InvoiceStatus; 3] =
        [InvoiceStatus::Open, InvoiceStatus::Paid, InvoiceStatus::Void];

    /// Returns its name in the database and in texts.
    pub const fn name(self) -> &'static str {
        match self {
            InvoiceStatus::Open => "open",
            InvoiceStatus::Paid => "paid",
            InvoiceStatus::Void => "void",
        }
    }
}

named_values!(InvoiceStatus, "status");

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "invoices")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) year: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) serial: i64,
    pub(crate) tenant_id: TenantId,
    pub(crate) period: Time,
    pub(crate) period_end: Time,
    pub(crate) issued_at: Time,
    pub(crate) due_at: Time,
    /// `open`, `paid` or `void`.
    pub(crate) status: InvoiceStatus,
    pub(crate) customer: String,
    pub(crate) seller: String,
    pub(crate) subtotal_cents: i64,
    pub(crate) tax_name: String,
    pub(crate) tax_basis_points: i32,
    pub(crate) tax_cents: i64,
    pub(crate) total_cents: i64,
    pub(crate) credited_cents: i64,
    pub(crate) settled_at: Option<Time>,
    pub(crate) note: Option<String>,
    /// True if the mail about it was queued.
    pub(crate) announced: bool,
    pub(crate) reminders: i32,
    pub(crate) suspended_at: Option<Time>,
    /// The lines of the customer's address, a JSON array.
    #[sea_orm(default_value = "[]")]
    pub(crate) customer_address: String,
    pub(crate) customer_tax_id: Option<String>,
    pub(crate) suspends_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

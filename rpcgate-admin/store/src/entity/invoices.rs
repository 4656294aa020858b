//! Invoices. An index allows each tenant one invoice per period.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "invoices")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) year: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) serial: i64,
    pub(crate) tenant_id: Uuid,
    pub(crate) period: i64,
    pub(crate) period_end: i64,
    pub(crate) issued_at: i64,
    pub(crate) due_at: i64,
    /// `open`, `paid` or `void`.
    pub(crate) status: String,
    pub(crate) customer: String,
    pub(crate) seller: String,
    pub(crate) subtotal_cents: i64,
    pub(crate) tax_name: String,
    pub(crate) tax_basis_points: i32,
    pub(crate) tax_cents: i64,
    pub(crate) total_cents: i64,
    pub(crate) credited_cents: i64,
    pub(crate) settled_at: Option<i64>,
    pub(crate) note: Option<String>,
    /// True if the mail about it was queued.
    pub(crate) announced: bool,
    pub(crate) reminders: i32,
    pub(crate) suspended_at: Option<i64>,
    /// The lines of the customer's address, a JSON array.
    #[sea_orm(default_value = "[]")]
    pub(crate) customer_address: String,
    pub(crate) customer_tax_id: Option<String>,
    pub(crate) suspends_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

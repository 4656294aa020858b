//! The lines of invoices.

use crate::query::named::named_values;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

/// The kind of an invoice line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum LineKind {
    /// The fee of a plan.
    Plan,
    /// Compute Units.
    Usage,
}

impl LineKind {
    const ALL: [LineKind; 2] = [LineKind::Plan, LineKind::Usage];

    /// Returns its name in the database and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            LineKind::Plan => "plan",
            LineKind::Usage => "usage",
        }
    }
}

named_values!(LineKind, "line of an invoice");

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "invoice_lines")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) year: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) serial: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) position: i32,
    pub(crate) tenant_id: TenantId,
    /// The start of its month, which differs from the invoice's for usage that arrived late.
    pub(crate) month: Time,
    pub(crate) kind: LineKind,
    pub(crate) chain: String,
    pub(crate) tier: Tier,
    /// The price of a Compute Unit, or of a plan for a whole month, in 10⁻¹² US dollars.
    pub(crate) price: i64,
    pub(crate) calls: i64,
    /// Compute Units, or seconds of a plan.
    pub(crate) units: i64,
    /// The amount in 10⁻¹² US dollars, as text because it can exceed a `bigint`.
    pub(crate) amount: String,
    pub(crate) custom_plan: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! JSON shapes of invoices and credit notes.

use crate::action::invoices::InvoiceState;
use crate::shape::moment::Moment;
use crate::shape::tenants::TierJson;
use rpcgate_core::clock::Time;
use rpcgate_store::LineKind;
use serde::Serialize;
use std::ops::Range;
use utoipa::ToSchema;

/// The currency of every amount.
pub const CURRENCY: &str = "usd";

/// The subject of an invoice line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = InvoiceLineKind)]
pub enum LineKindJson {
    /// The fee of a plan.
    Plan,
    /// Compute Units.
    Usage,
}

/// A period of time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = BillingPeriod)]
pub struct PeriodJson {
    /// The start.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// The end.
    #[schema(value_type = String, format = DateTime)]
    pub to: Moment,
}

impl From<Range<Time>> for PeriodJson {
    fn from(period: Range<Time>) -> Self {
        PeriodJson { from: period.start.into(), to: period.end.into() }
    }
}

/// A line of an invoice. Amounts are exact; only the sum is rounded to cents.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = InvoiceLine)]
pub struct InvoiceLineJson {
    /// The subject.
    pub kind: LineKindJson,
    /// The start of the month that it bills: the month of the invoice, or an earlier month for usage that was recorded
    /// late.
    #[schema(value_type = String, format = DateTime)]
    pub month: Moment,
    /// The chain, or null for a plan.
    #[schema(example = "eth")]
    pub chain: Option<String>,
    /// The built-in plan, or the base of a custom plan.
    pub tier: TierJson,
    /// The name of the custom plan when the invoice was issued, or null for a built-in plan.
    pub custom_plan: Option<String>,
    /// Calls charged at least one Compute Unit, or null for a plan.
    pub calls: Option<u64>,
    /// Compute Units, or null for a plan.
    pub compute_units: Option<u64>,
    /// The seconds for which the plan was in force, or null for usage.
    pub seconds: Option<u64>,
    /// The price in US dollars of a Compute Unit, or of the plan for the whole month.
    #[schema(example = 0.001)]
    pub price: f64,
    /// The amount in US dollars, with twelve decimals.
    #[schema(example = "1.250000000000")]
    pub amount: String,
}

impl From<rpcgate_store::InvoiceLine> for InvoiceLineJson {
    fn from(line: rpcgate_store::InvoiceLine) -> Self {
        let is_plan = line.kind == LineKind::Plan;
        InvoiceLineJson {
            kind: if is_plan { LineKindJson::Plan } else { LineKindJson::Usage },
            month: line.month.into(),
            chain: (!is_plan).then_some(line.chain),
            tier: line.tier.into(),
            custom_plan: line.custom_plan,
            calls: (!is_plan).then_some(line.calls),
            compute_units: (!is_plan).then_some(line.units),
            seconds: is_plan.then_some(line.units),
            price: line.price.usd(),
            amount: line.amount.to_string(),
        }
    }
}

/// A tax on the sum of an invoice's lines.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = InvoiceTax)]
pub struct TaxJson {
    /// Its name.
    #[schema(example = "VAT")]
    pub name: String,
    /// Its rate in hundredths of a percent.
    #[schema(example = 1900)]
    pub basis_points: u32,
    /// The tax in cents.
    pub cents: u64,
}

/// Returns the taxes on these amounts: none or one.
pub fn taxes(amounts: &rpcgate_store::InvoiceAmounts) -> Vec<TaxJson> {
    let tax = TaxJson {
        name: amounts.tax_name.clone(),
        basis_points: amounts.tax_basis_points,
        cents: amounts.tax,
    };
    (tax.basis_points > 0).then_some(tax).into_iter().collect()
}

/// An invoice without its lines.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = InvoiceSummary)]
pub struct InvoiceSummaryJson {
    /// Its number.
    #[schema(example = "2026-000123")]
    pub number: String,
    /// The tenant that owes it.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The billed month.
    pub period: PeriodJson,
    /// Its state.
    pub status: InvoiceState,
    /// The date of issue.
    #[schema(value_type = String, format = DateTime)]
    pub issued_at: Moment,
    /// The due date.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Moment,
    /// The time of payment or cancellation, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub settled_at: Option<Moment>,
    /// The amount with taxes, in cents.
    pub total_cents: u64,
    /// The sum of its credit notes, in cents.
    pub credited_cents: u64,
    /// The amount that is still due, in cents.
    pub due_cents: u64,
    /// The currency: always usd.
    #[schema(example = "usd")]
    pub currency: &'static str,
}

impl InvoiceSummaryJson {
    /// Returns an invoice with its state at `now`.
    pub fn of(invoice: &rpcgate_store::Invoice, now: Time) -> Self {
        InvoiceSummaryJson {
            number: invoice.number.to_string(),
            tenant_id: invoice.tenant.to_string(),
            period: invoice.period.clone().into(),
            status: InvoiceState::of(invoice, now),
            issued_at: invoice.issued_at.into(),
            due_at: invoice.due_at.into(),
            settled_at: invoice.settled_at.map(Moment),
            total_cents: invoice.amounts.total,
            credited_cents: invoice.credited,
            due_cents: invoice.due_cents(),
            currency: CURRENCY,
        }
    }
}

/// The seller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = InvoiceSeller)]
pub struct SellerJson {
    /// Its name.
    pub name: String,
    /// The lines of its address.
    pub address: Vec<String>,
    /// Its tax number, or null.
    pub tax_id: Option<String>,
}

/// A credit note.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = CreditNote)]
pub struct CreditNoteJson {
    /// Its number.
    #[schema(example = "C2026-000001")]
    pub number: String,
    /// The invoice that it reduces.
    #[schema(example = "2026-000123")]
    pub invoice: String,
    /// The date of issue.
    #[schema(value_type = String, format = DateTime)]
    pub issued_at: Moment,
    /// The reason.
    pub reason: String,
    /// The amount without tax, in cents.
    pub net_cents: u64,
    /// The tax, in cents.
    pub tax_cents: u64,
    /// The amount with tax, in cents.
    pub total_cents: u64,
}

impl From<rpcgate_store::CreditNote> for CreditNoteJson {
    fn from(note: rpcgate_store::CreditNote) -> Self {
        CreditNoteJson {
            number: note.number.to_string(),
            invoice: note.invoice.to_string(),
            issued_at: note.issued_at.into(),
            reason: note.reason,
            net_cents: note.net,
            tax_cents: note.tax,
            total_cents: note.cents,
        }
    }
}

/// An invoice.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Invoice)]
pub struct InvoiceJson {
    /// The invoice without its lines.
    #[serde(flatten)]
    pub summary: InvoiceSummaryJson,
    /// The seller.
    pub seller: SellerJson,
    /// The customer's name at the date of issue: its name for invoices, or the tenant's name.
    pub customer: String,
    /// The lines of the customer's address at the date of issue.
    pub customer_address: Vec<String>,
    /// The customer's tax number at the date of issue, or null.
    pub customer_tax_id: Option<String>,
    /// Its lines.
    pub lines: Vec<InvoiceLineJson>,
    /// The sum of the lines, rounded to cents.
    pub subtotal_cents: u64,
    /// The taxes on the subtotal.
    pub taxes: Vec<TaxJson>,
    /// Its credit notes, the oldest first.
    pub credit_notes: Vec<CreditNoteJson>,
    /// A note of the operator who marked it as paid or cancelled, or null.
    pub note: Option<String>,
}

impl InvoiceJson {
    /// Returns an invoice with its state at `now`.
    pub fn of(whole: rpcgate_store::WholeInvoice, now: Time) -> Self {
        let rpcgate_store::WholeInvoice { invoice, lines, credit_notes } = whole;
        let summary = InvoiceSummaryJson::of(&invoice, now);
        let rpcgate_store::InvoiceSeller { name, address, tax_id } = invoice.seller;
        InvoiceJson {
            summary,
            seller: SellerJson { name, address, tax_id },
            customer: invoice.customer,
            customer_address: invoice.customer_address,
            customer_tax_id: invoice.customer_tax_id,
            lines: lines.into_iter().map(InvoiceLineJson::from).collect(),
            subtotal_cents: invoice.amounts.subtotal,
            taxes: taxes(&invoice.amounts),
            credit_notes: credit_notes.into_iter().map(CreditNoteJson::from).collect(),
            note: invoice.note,
        }
    }
}

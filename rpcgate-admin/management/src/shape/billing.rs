//! JSON shapes of the amount that a tenant owes for the current month.

use crate::action::billing::{BillingTerms, NextInvoice};
use crate::shape::invoices::{CURRENCY, InvoiceLineJson, InvoiceSummaryJson, PeriodJson, TaxJson, taxes};
use crate::shape::tenants::TierJson;
use rpcgate_core::clock::Time;
use serde::Serialize;
use utoipa::ToSchema;

/// The plan in force.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct BilledPlan {
    /// Its name.
    #[schema(example = "standard")]
    pub name: String,
    /// The built-in plan, or the base of a custom plan.
    pub tier: TierJson,
    /// The fee per month, in cents.
    pub monthly_fee_cents: u64,
    /// The price of a Compute Unit in US dollars.
    #[schema(example = 0.001)]
    pub price_per_cu: f64,
}

/// The amount that a tenant owes for the current month so far, and its last invoices.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct Billing {
    /// The current calendar month in UTC.
    pub period: PeriodJson,
    /// The plan in force.
    pub plan: BilledPlan,
    /// The lines that the invoice would have if the month ended now.
    pub lines: Vec<InvoiceLineJson>,
    /// The sum of the lines, rounded to cents.
    pub subtotal_cents: u64,
    /// The taxes on the subtotal.
    pub taxes: Vec<TaxJson>,
    /// The sum with taxes, in cents.
    pub total_cents: u64,
    /// The currency: always usd.
    #[schema(example = "usd")]
    pub currency: &'static str,
    /// The last twelve invoices, the newest first.
    pub invoices: Vec<InvoiceSummaryJson>,
}

impl Billing {
    /// Shapes the bill of the current month.
    pub fn of(NextInvoice { lines, amounts, .. }: NextInvoice, terms: BillingTerms, now: Time) -> Self {
        Billing {
            period: terms.period.into(),
            plan: BilledPlan {
                name: terms.plan_name,
                tier: terms.plan.tier.into(),
                monthly_fee_cents: terms.monthly_fee,
                price_per_cu: terms.plan.price.usd(),
            },
            lines: lines.into_iter().map(InvoiceLineJson::from).collect(),
            subtotal_cents: amounts.subtotal,
            taxes: taxes(&amounts),
            total_cents: amounts.total,
            currency: CURRENCY,
            invoices: terms.invoices.iter().map(|one| InvoiceSummaryJson::of(one, now)).collect(),
        }
    }
}

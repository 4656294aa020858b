//! Bills: what a tenant owes for a calendar month.
//!
//! The gateways store every charge in the billing ledger, at the price of its time. After the end of a month the
//! janitor [closes](closing) it for each tenant: it puts the charges and the fees of plans on an invoice.
//! `docs/billing.md` describes the rules.

pub mod closing;
pub mod dunning;
pub mod lines;
pub mod month;
mod usage;

use super::actor::Actor;
use super::plans::PlanNames;
use super::tenants::own_tenant;
use crate::app_state::AppState;
use crate::error::ActionError;
use lines::{FeeHistory, amounts, fee_spans, plan_lines, plan_spans, usage_lines};
use month::BillingMonth;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Plan;
use rpcgate_store::{Invoice, InvoiceAmounts, InvoiceFilter, InvoiceLine, InvoiceSeller, Tenant};
use std::ops::Range;

const RECENT: u64 = 12;

/// The plan of a tenant, and its last invoices.
#[derive(Clone, PartialEq, Debug)]
pub struct BillingTerms {
    /// The current month.
    pub period: Range<Time>,
    /// The plan in force, with the figures of the tenant's contracts.
    pub plan: Plan,
    /// The name of the plan.
    pub plan_name: String,
    /// The monthly fee in cents.
    pub monthly_fee: u64,
    /// The last invoices, the newest first.
    pub invoices: Vec<Invoice>,
}

/// The amount that a tenant owes for the current month so far.
#[derive(Clone, PartialEq, Debug)]
pub struct MonthSoFar {
    /// The lines of an invoice if the month ended now.
    pub lines: Vec<InvoiceLine>,
    /// The amounts of that invoice.
    pub amounts: InvoiceAmounts,
}

/// The preliminary invoice of the current month, as if the month ended now. It has no number, and nothing is to be paid
/// on it.
#[derive(Clone, PartialEq, Debug)]
pub struct NextInvoice {
    /// The current month.
    pub month: BillingMonth,
    /// The end of the included usage.
    pub until: Time,
    /// The name of the customer.
    pub customer: String,
    /// The lines of the customer's address.
    pub customer_address: Vec<String>,
    /// The customer's tax number.
    pub customer_tax_id: Option<String>,
    /// The seller.
    pub seller: InvoiceSeller,
    /// The lines.
    pub lines: Vec<InvoiceLine>,
    /// The amounts.
    pub amounts: InvoiceAmounts,
}

impl NextInvoice {
    /// Reports whether an invoice would be issued. A month in which nothing is owed has no invoice.
    pub fn is_issued(&self) -> bool {
        lines::sum(&self.lines).0 > 0
    }
}

/// Returns a tenant's lines for the part of `month` until `until`, without those in `invoiced`.
async fn lines_of(
    app: &AppState,
    tenant: &Tenant,
    month: BillingMonth,
    since: Time,
    until: Time,
    invoiced: &[InvoiceLine],
) -> Result<Vec<InvoiceLine>, ActionError> {
    let start = month.start().max(since).max(tenant.created_at);
    let span = start..until.min(month.end()).max(start);
    let changes = app.store.tier_changes(tenant.id, span.start).await?;
    let spans = plan_spans(span, &changes, tenant.plan());
    let contracts = app.store.contracts(tenant.id).await?;
    let custom_plans = app.store.billed_custom_plans().await?;
    let history = FeeHistory {
        recorded: &app.store.plan_fees().await?,
        custom_plans: &custom_plans,
        configured: &app.settings.config.billing.fees,
    };
    let fees = fee_spans(&spans, &contracts, &history);
    let mut lines = plan_lines(month, &fees);
    let charges = usage::of_month(app, tenant, month, &custom_plans).await?;
    lines.extend(usage_lines(month, &charges, invoiced));
    Ok(lines)
}

/// Returns what the caller's tenant owes for the current month so far.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Unavailable`].
pub async fn month_so_far(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
) -> Result<MonthSoFar, ActionError> {
    let id = own_tenant(actor, tenant)?;
    let now = app.now();
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let month = BillingMonth::of(now);
    let lines = lines_of(app, &tenant, month, month.start(), now, &[]).await?;
    let config = app.config_in_force().await?;
    Ok(MonthSoFar { amounts: amounts(&lines, &config.billing), lines })
}

/// Returns the preliminary invoice of the caller's tenant for the current month: [`month_so_far`], and the usage that
/// arrived after its own month was closed.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Unavailable`].
pub async fn next_invoice(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
) -> Result<NextInvoice, ActionError> {
    let id = own_tenant(actor, tenant)?;
    let now = app.now();
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let month = BillingMonth::of(now);
    let begun = app.store.billing_begun().await?.unwrap_or(month.start());
    // A tenant without a closed month has no late usage.
    let closed_until = app.store.closed_until(id).await?.unwrap_or(begun);
    let lines = closing::late_and_current_lines(app, &tenant, month, closed_until, begun, now).await?;
    let config = app.config_in_force().await?;
    let party = app.store.billing_party(id).await?;
    Ok(NextInvoice {
        month,
        until: now,
        seller: closing::seller(&config.billing),
        amounts: amounts(&lines, &config.billing),
        customer: party.name.unwrap_or(tenant.name),
        customer_address: party.address,
        customer_tax_id: party.tax_id,
        lines,
    })
}

/// Returns the plan of the caller's tenant, and its last invoices, which do not depend on usage.
///
/// # Errors
/// Those of [`month_so_far`].
pub async fn terms(app: &AppState, actor: &Actor, tenant: TenantId) -> Result<BillingTerms, ActionError> {
    let id = own_tenant(actor, tenant)?;
    let now = app.now();
    let tenant = app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))?;
    let config = app.config_in_force().await?;
    let plan_name = PlanNames::read(app).await?.of(tenant.plan()).to_owned();
    let terms = app.store.terms(id, now).await?;
    let agreed_fee = terms.figures(now).plan.monthly_fee;
    let filter = InvoiceFilter { tenant: Some(id), ..InvoiceFilter::default() };
    Ok(BillingTerms {
        period: BillingMonth::of(now).span(),
        plan_name,
        plan: terms.plan(config.plans.of_tenant(tenant.tier), now),
        monthly_fee: agreed_fee.unwrap_or(config.billing.fees.of(tenant.tier)),
        invoices: app.store.invoices(filter, None, RECENT).await?,
    })
}

//! The bill of the current month, and the invoices.

use super::context::{PageContext, PageResult, plan_label};
use super::filters;
use super::form::QueryFields;
use super::frame::{Frame, PageSection};
use super::invoices::state_badge;
use super::parts::PageLinks;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Amount;
use rpcgate_management::action::billing::{self, BillingTerms, NextInvoice};
use rpcgate_management::action::invoices;
use rpcgate_management::action::usage::if_readable;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use rpcgate_store::{Invoice, InvoiceAmounts, InvoiceLine, InvoiceNumber, LineKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const SHOWN: u64 = 24;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/billing", get(show))
}

#[derive(Template)]
#[template(path = "billing.html")]
struct BillingPage {
    frame: Frame,
    terms: BillingTerms,
    plan: String,
    /// The month so far; `None` while usage cannot be read.
    month: Option<RunningMonth>,
    invoices: Vec<Invoice>,
    /// The oldest unpaid invoice.
    to_pay: Option<Invoice>,
    takes_payments: bool,
    links: PageLinks,
}

impl BillingPage {
    fn badge(&self, invoice: &Invoice) -> (&'static str, String) {
        state_badge(invoice, self.frame.now)
    }

    fn last_day(&self) -> Time {
        Time::from_micros(self.terms.period.end.micros().saturating_sub(1))
    }

    fn may_pay(&self, invoice: &Invoice) -> bool {
        self.takes_payments && invoice.due_cents() > 0
    }
}

struct RunningMonth {
    amounts: InvoiceAmounts,
    units: u64,
    /// The expected cost of the whole month at this rate, in cents.
    expected: u64,
    chains: Vec<ChainCost>,
}

impl RunningMonth {
    fn of(NextInvoice { lines, amounts, .. }: NextInvoice, period: &Range<Time>, now: Time) -> Self {
        let usage = lines.iter().filter(|line| line.kind == LineKind::Usage);
        RunningMonth {
            units: usage.map(|line| line.units).fold(0, u64::saturating_add),
            expected: at_this_pace(amounts.total, period, now),
            chains: by_chain(&lines),
            amounts,
        }
    }
}

struct ChainCost {
    chain: String,
    amount: Amount,
    /// The width of the bar, as in `86.2%`.
    width: String,
}

/// Returns the cost of each chain, the highest first.
fn by_chain(lines: &[InvoiceLine]) -> Vec<ChainCost> {
    let mut sums: BTreeMap<&str, u128> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.kind == LineKind::Usage) {
        let sum = sums.entry(line.chain.as_str()).or_default();
        *sum = sum.saturating_add(line.amount.0);
    }
    let most = sums.values().copied().max().unwrap_or_default().max(1);
    let mut chains: Vec<_> = sums.into_iter().collect();
    chains.sort_by_key(|(_, sum)| Reverse(*sum));
    let cost = |(chain, sum): (&str, u128)| {
        let permille = sum.saturating_mul(1_000) / most;
        let chain = if chain.is_empty() { "all chains" } else { chain };
        ChainCost {
            chain: chain.to_owned(),
            amount: Amount(sum),
            width: format!("{}.{}%", permille / 10, permille % 10),
        }
    };
    chains.into_iter().map(cost).collect()
}

/// Returns the total at the end of the period, extrapolated from the total at `now`.
fn at_this_pace(total: u64, period: &Range<Time>, now: Time) -> u64 {
    let passed = now.since(period.start).as_secs().max(1);
    let whole = period.end.since(period.start).as_secs();
    let expected = u128::from(total) * u128::from(whole.max(passed)) / u128::from(passed);
    u64::try_from(expected).unwrap_or(u64::MAX)
}

async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    let tenant = page.permitted(Permission::ReadBilling)?;
    let before = query.filled("before").map(str::parse::<InvoiceNumber>).transpose();
    let before = before.map_err(|_| ActionError::invalid("this is not a position in this list"))?;
    let terms = billing::terms(&app, &page.actor, tenant).await?;
    let month = if_readable(billing::next_invoice(&app, &page.actor, tenant).await)?;
    let invoices = invoices::list(&app, &page.actor, tenant, before, SHOWN).await?;
    let last = invoices.last().filter(|_| invoices.len() as u64 == SHOWN);
    let older = last.map(|last| format!("billing?before={}", last.number));
    let is_tier = terms.plan.tier.name() == terms.plan_name;
    Ok(ok(&BillingPage {
        frame: page.frame(PageSection::Billing),
        plan: if is_tier { plan_label(terms.plan.tier) } else { terms.plan_name.clone() },
        month: month.map(|month| RunningMonth::of(month, &terms.period, app.now())),
        to_pay: terms.invoices.iter().rev().find(|invoice| invoice.due_cents() > 0).cloned(),
        terms,
        invoices,
        takes_payments: app.payments.is_some(),
        links: PageLinks { older, ..PageLinks::default() },
    }))
}

#[cfg(test)]
mod tests;

//! The monthly closing: each tenant gets an invoice for what it owes.
//!
//! A tenant's month is closed in one transaction, which advances the end of the closed time, takes the next number and
//! stores the invoice. So a program that stops in the middle has changed nothing. If several programs close the same
//! month, one succeeds and the others find it closed. Usage that arrives after its month was closed is put on the next
//! invoice, if its month is one of the two before.

use super::lines::{amounts, sum, usage_lines};
use super::month::BillingMonth;
use super::{lines_of, usage};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_config::BillingSettings;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::usage::Amount;
use rpcgate_store::{InvoiceLine, InvoiceSeller, NewInvoice, PeriodClosed, Tenant, UnclosedTenant};

const TENANTS: u64 = 100;

/// The result of closing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MonthsClosed {
    /// The closed months of tenants.
    pub months: u64,
    /// The issued invoices.
    pub invoices: u64,
}

/// Closes for each tenant every month that ended at least `billing.close_after` ago. Billing begins with the month of
/// the first call. A tenant that cannot be billed does not prevent the billing of others.
///
/// # Errors
/// [`ActionError::Unavailable`]; the months closed before the error stay closed.
pub async fn close_months(app: &AppState) -> Result<MonthsClosed, ActionError> {
    let now = app.now();
    let begun = app.store.begin_billing(BillingMonth::of(now).start()).await?;
    record_fees(app).await?;
    let wait = app.settings.config.billing.close_after;
    let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    let closable = Time::from_micros(now.micros().saturating_sub(wait));
    // The month of this time has not ended long enough ago, the one before has.
    let end = BillingMonth::of(closable).start();
    let mut closed = MonthsClosed::default();
    if end <= begun {
        return Ok(closed);
    }
    let mut after = None;
    loop {
        let tenants = app.store.unclosed_tenants(end, after, TENANTS).await?;
        let Some(last) = tenants.last() else { return Ok(closed) };
        after = Some(last.tenant.id);
        for unclosed in &tenants {
            match close_tenant(app, unclosed, begun, end, &mut closed).await {
                Ok(()) => {}
                Err(error @ ActionError::Unavailable(_)) => return Err(error),
                Err(error) => {
                    let tenant = unclosed.tenant.id;
                    tracing::error!(?error, %tenant, "a month of a tenant cannot be closed");
                }
            }
        }
    }
}

/// Records the fees of the four plans, so that a month is billed by the fees in force on its days.
async fn record_fees(app: &AppState) -> Result<(), ActionError> {
    app.store.settle_plan_changes(app.now()).await?;
    let fees = app.config_in_force().await?.billing.fees;
    let fees = Tier::ALL.into_iter().map(|tier| (tier, fees.of(tier))).collect();
    Ok(app.store.record_tier_fees(&fees, app.now()).await?)
}

async fn close_tenant(
    app: &AppState,
    UnclosedTenant { tenant, closed_until }: &UnclosedTenant,
    begun: Time,
    end: Time,
    closed: &mut MonthsClosed,
) -> Result<(), ActionError> {
    let mut since = *closed_until;
    let first = BillingMonth::of(tenant.created_at).start().max(begun);
    let mut month = BillingMonth::of(since.unwrap_or(first));
    while month.end() <= end {
        let invoice = draft(app, tenant, month, begun).await?;
        match app.store.close_period(tenant.id, since, month.end(), invoice.as_ref()).await? {
            PeriodClosed::Before => return Ok(()),
            PeriodClosed::Now(issued) => {
                closed.months += 1;
                if let Some(number) = issued {
                    closed.invoices += 1;
                    tracing::info!(%number, tenant = %tenant.id, "an invoice was issued");
                }
            }
        }
        since = Some(month.end());
        if month.next() == month {
            break;
        }
        month = month.next();
    }
    Ok(())
}

/// Makes a tenant's invoice for a month, if there is something to bill.
async fn draft(
    app: &AppState,
    tenant: &Tenant,
    month: BillingMonth,
    begun: Time,
) -> Result<Option<NewInvoice>, ActionError> {
    let settings = &app.settings.config.billing;
    let now = app.now();
    let lines = late_and_current_lines(app, tenant, month, month.start(), begun, month.end()).await?;
    if sum(&lines).0 == 0 {
        return Ok(None);
    }
    let party = app.store.billing_party(tenant.id).await?;
    Ok(Some(NewInvoice {
        tenant: tenant.id,
        period: month.span(),
        year: BillingMonth::of(now).year(),
        issued_at: now,
        due_at: now.plus(settings.pay_within),
        customer: party.name.unwrap_or_else(|| tenant.name.clone()),
        customer_address: party.address,
        customer_tax_id: party.tax_id,
        seller: seller(settings),
        amounts: amounts(&lines, settings),
        lines,
    }))
}

/// Returns what a tenant owes for the months that are not closed, as if they ended now. Returns zero if billing has not
/// begun.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub(in crate::action) async fn unbilled(app: &AppState, tenant: &Tenant) -> Result<Amount, ActionError> {
    let Some(begun) = app.store.billing_begun().await? else { return Ok(Amount(0)) };
    let closed = app.store.closed_until(tenant.id).await?;
    let now = app.now();
    let first = BillingMonth::of(tenant.created_at).start().max(begun);
    let mut month = BillingMonth::of(closed.unwrap_or(first));
    let closed_until = month.start();
    let mut owed = Vec::new();
    while month.start() <= now {
        owed.extend(late_and_current_lines(app, tenant, month, closed_until, begun, now).await?);
        if month.next() == month {
            break;
        }
        month = month.next();
    }
    Ok(sum(&owed))
}

/// Returns the seller of new invoices, as configured.
pub fn seller(settings: &BillingSettings) -> InvoiceSeller {
    InvoiceSeller {
        name: settings.seller.clone(),
        address: settings.seller_address.clone(),
        tax_id: settings.seller_tax_id.clone(),
    }
}

/// Returns the lines of a month until `until`, preceded by those of usage that arrived after its own month was closed.
/// Months until `closed_until` are closed; late usage of a later month goes on that month's own invoice.
pub(super) async fn late_and_current_lines(
    app: &AppState,
    tenant: &Tenant,
    month: BillingMonth,
    closed_until: Time,
    begun: Time,
    until: Time,
) -> Result<Vec<InvoiceLine>, ActionError> {
    let first = month.previous().previous();
    let invoiced = app.store.invoiced_usage(tenant.id, first.start()..month.end()).await?;
    let custom_plans = app.store.billed_custom_plans().await?;
    let mut lines = Vec::new();
    for before in [first, month.previous()] {
        let is_closed = before.end() <= closed_until;
        if is_closed && before.start() >= begun && is_retained(app, before) && before < month {
            let charges = usage::of_month(app, tenant, before, &custom_plans).await?;
            // Usage without a price is not billed, so it is on an invoice only together with other lines.
            let late = usage_lines(before, &charges, &invoiced).into_iter().filter(|line| line.amount.0 > 0);
            lines.extend(late);
        }
    }
    lines.extend(lines_of(app, tenant, month, begun, until, &invoiced).await?);
    Ok(lines)
}

/// Reports whether the ledger still has all charges of a month. The sum of a partly removed month would be wrong.
fn is_retained(app: &AppState, month: BillingMonth) -> bool {
    app.now().since(month.start()) < app.settings.config.retention.ledger
}

#[cfg(test)]
mod tests;

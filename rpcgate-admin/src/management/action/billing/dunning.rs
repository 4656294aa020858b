//! Mails about invoices, and the suspension of tenants that do not pay.
//!
//! Each mail is claimed in the database before it is handed over, so that of several janitors one sends it. A program that
//! is killed in between loses that mail; the next reminder, and the list of invoices, still show the debt.

use crate::management::action::billing::recipients;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::mail::{Address, Mail};
use crate::store::{Invoice, InvoiceFilter, InvoiceStatus};
use rpcgate_core::clock::Time;
use std::time::Duration;

/// Invoices that are read at once.
const INVOICES: u64 = 100;

/// What one pass has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DunningPass {
    /// New invoices about which mails were sent.
    pub announced: u64,
    /// Invoices of which tenants were reminded.
    pub reminded: u64,
    /// Tenants that were suspended.
    pub suspended: u64,
}

/// Sends the mails about new and overdue invoices that are due now, and suspends the tenants that have not paid for too
/// long, if `billing.suspend_after` says so.
///
/// # Errors
/// [`ActionError::Unavailable`]; what is done until then stays done.
pub async fn remind(app: &AppState) -> Result<DunningPass, ActionError> {
    let mut pass = DunningPass::default();
    announce(app, &mut pass).await?;
    let filter = InvoiceFilter {
        status: Some(InvoiceStatus::Open),
        due_by: Some(app.now()),
        ..InvoiceFilter::default()
    };
    let mut before = None;
    loop {
        let invoices = app.store.invoices(filter, before, INVOICES).await?;
        let Some(last) = invoices.last() else { return Ok(pass) };
        before = Some(last.number);
        for invoice in &invoices {
            remind_of(app, invoice, &mut pass).await?;
        }
    }
}

async fn announce(app: &AppState, pass: &mut DunningPass) -> Result<(), ActionError> {
    loop {
        let invoices = app.store.unannounced_invoices(INVOICES).await?;
        if invoices.is_empty() {
            return Ok(());
        }
        for invoice in &invoices {
            let is_ours = app.store.claim_announcement(invoice.number).await?;
            if is_ours && invoice.status == InvoiceStatus::Open {
                pass.announced += 1;
                let dash_url = &app.settings.dash_url;
                send(app, invoice, |to| Mail::invoice_issued(to, invoice, dash_url)).await?;
            }
        }
    }
}

async fn remind_of(app: &AppState, invoice: &Invoice, pass: &mut DunningPass) -> Result<(), ActionError> {
    let (settings, now) = (&app.settings.config.billing, app.now());
    let late = now.since(invoice.due_at);
    let suspends = settings.suspend_after > Duration::ZERO;
    if suspends && late >= settings.suspend_after && invoice.suspended_at.is_none() {
        if app.store.suspend_debtor(invoice.number, now).await? {
            pass.suspended += 1;
            tracing::warn!(number = %invoice.number, tenant = %invoice.tenant, "a tenant that does not pay is suspended");
            send(app, invoice, |to| Mail::suspended(to, invoice, &app.settings.dash_url)).await?;
        }
        return Ok(());
    }
    let due = settings.reminders.iter().filter(|after| late >= **after).count();
    let due = u32::try_from(due).unwrap_or(u32::MAX);
    if invoice.reminders < due && app.store.claim_reminders(invoice.number, invoice.reminders, due).await? {
        pass.reminded += 1;
        let ends = suspends.then(|| suspension(invoice, settings.suspend_after));
        send(app, invoice, |to| Mail::payment_reminder(to, invoice, ends, &app.settings.dash_url)).await?;
    }
    Ok(())
}

/// When a tenant that does not pay is suspended.
fn suspension(invoice: &Invoice, after: Duration) -> Time {
    invoice.due_at.plus(after)
}

/// Sends a mail about an invoice to those who pay for its tenant. A mail that cannot be handed over is logged: the
/// invoice stands without it.
async fn send(app: &AppState, invoice: &Invoice, mail: impl Fn(Address) -> Mail) -> Result<(), ActionError> {
    for to in recipients(app, invoice.tenant).await? {
        if let Err(error) = app.mails.send(&mail(to), app.now()).await {
            tracing::warn!(%error, number = %invoice.number, "a mail about an invoice could not be handed over");
        }
    }
    Ok(())
}

/// Confirms a payment by mail, as far as mails can be handed over.
pub(in crate::management::action) async fn confirm_payment(app: &AppState, invoice: &Invoice) {
    let sent = send(app, invoice, |to| Mail::payment_received(to, invoice, &app.settings.dash_url)).await;
    if let Err(error) = sent {
        tracing::warn!(%error, number = %invoice.number, "a payment could not be confirmed by mail");
    }
}

#[cfg(test)]
mod tests;

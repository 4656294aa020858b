//! The notifications to members about invoices, and the suspension of tenants that do not pay.
//!
//! Each notification is claimed in the transaction that stores it with its mails. So only one of several janitors
//! raises it, and a janitor that is killed in between does not lose it.

use crate::action::notifications::{PreparedNotice, prepare, raise_with};
use crate::action::suspensions;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::mail::{Address, Mail, day, dollars};
use rpcgate_config::BillingSettings;
use rpcgate_core::clock::Time;
use rpcgate_store::{Invoice, InvoiceEvent, InvoiceFilter, InvoiceStatus, NotificationKind, User};
use std::time::Duration;

const INVOICES: u64 = 100;

/// The result of one pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DunningPass {
    /// New invoices about which members were notified.
    pub announced: u64,
    /// Invoices for which a reminder was sent.
    pub reminded: u64,
    /// Suspended tenants.
    pub suspended: u64,
}

/// Raises the notifications about new invoices, and about those that are due soon or overdue. With
/// `billing.suspend_after`, it suspends the tenants that have not paid by the day named in a mail.
///
/// # Errors
/// [`ActionError::Unavailable`]; the steps done before the error stay done.
pub async fn remind(app: &AppState) -> Result<DunningPass, ActionError> {
    let mut pass = DunningPass::default();
    announce(app, &mut pass).await?;
    let until = app.now().plus(app.settings.config.billing.remind_before);
    let filter =
        InvoiceFilter { status: Some(InvoiceStatus::Open), due_by: Some(until), ..InvoiceFilter::default() };
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
            let prepared = if invoice.status == InvoiceStatus::Open {
                let amount = dollars(invoice.due_cents());
                let due = day(invoice.due_at);
                let text = format!("Invoice {} of {amount} is ready, and due on {due}", invoice.number);
                prepare_notice(app, invoice, &text, Mail::invoice_issued).await?
            } else {
                None
            };
            pass.announced += u64::from(claim(app, invoice, InvoiceEvent::Issued, prepared).await?);
        }
    }
}

async fn remind_of(app: &AppState, invoice: &Invoice, pass: &mut DunningPass) -> Result<(), ActionError> {
    let settings = &app.settings.config.billing;
    let now = app.now();
    let suspends = settings.suspend_after > Duration::ZERO;
    if !suspends && invoice.suspends_at.is_some() {
        // If the setting is switched on again much later, a new mail must warn first.
        app.store.withdraw_suspension(invoice.number).await?;
    }
    let announced = invoice.suspends_at.filter(|_| suspends);
    if announced.is_some_and(|at| now >= at) && invoice.suspended_at.is_none() {
        if app.store.suspend_debtor(invoice.number, now).await? {
            pass.suspended += 1;
            tracing::warn!(number = %invoice.number, tenant = %invoice.tenant, "a tenant that does not pay is suspended");
            suspensions::notify(app, invoice.tenant, true, Some(invoice)).await;
        }
        return Ok(());
    }
    let (early, overdue) = reminders_until(invoice, settings, now);
    let due = early + overdue;
    // The first reminder after the due date announces the suspension. The announcement has its own mail if there are no
    // such reminders, or if suspensions were switched on after the last of them.
    let is_late = overdue > 0 || (settings.reminders.is_empty() && now >= invoice.due_at);
    let announces = suspends && announced.is_none() && invoice.suspended_at.is_none() && is_late;
    if invoice.reminders >= due && !announces {
        return Ok(());
    }
    let suspends_at = announced.or_else(|| announces.then(|| now.plus(settings.suspend_after)));
    let number = invoice.number;
    let amount = dollars(invoice.due_cents());
    let day = day(invoice.due_at);
    let prepared = if overdue > 0 || announces {
        let text = format!("Invoice {number} of {amount} was due on {day} and is not paid");
        let mail = |to: Address, invoice: &Invoice, dash_url: &str| {
            Mail::payment_reminder(to, invoice, suspends_at, dash_url)
        };
        prepare_notice(app, invoice, &text, mail).await?
    } else if now < invoice.due_at {
        let text = format!("Invoice {number} of {amount} is due on {day}");
        prepare_notice(app, invoice, &text, Mail::payment_due_soon).await?
    } else {
        None
    };
    let news = InvoiceEvent::Reminder {
        sent: invoice.reminders,
        now: due.max(invoice.reminders),
        suspends_at: suspends_at.filter(|_| announces),
    };
    pass.reminded += u64::from(claim(app, invoice, news, prepared).await?);
    Ok(())
}

/// Prepares the notification about an invoice to the members who may read bills. If this fails for a reason other than
/// an unavailable database, a retry would not help: the invoice is valid without it, and the error is logged.
async fn prepare_notice(
    app: &AppState,
    invoice: &Invoice,
    text: &str,
    mail: impl Fn(Address, &Invoice, &str) -> Mail,
) -> Result<Option<PreparedNotice>, ActionError> {
    let dash_url = &app.settings.dash_url;
    let mail = |_: &User, to: Address| mail(to, invoice, dash_url);
    match prepare(app, invoice.tenant, NotificationKind::Invoice, text, mail).await {
        Ok(prepared) => Ok(Some(prepared)),
        Err(error @ ActionError::Unavailable(_)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, number = %invoice.number, "members could not be notified about an invoice");
            Ok(None)
        }
    }
}

/// Claims a notification about an invoice and stores it if it was prepared. Returns whether members were notified.
async fn claim(
    app: &AppState,
    invoice: &Invoice,
    news: InvoiceEvent,
    prepared: Option<PreparedNotice>,
) -> Result<bool, ActionError> {
    let mailed = prepared.as_ref().map(PreparedNotice::notice);
    let Some(rooms) = app.store.notify_of_invoice(invoice.number, news, mailed).await? else {
        return Ok(false);
    };
    app.mails.stored(rooms);
    Ok(prepared.is_some())
}

/// Returns the number of reminders due until `now`: those before the due date of an invoice, 0 or 1, and those after
/// it.
fn reminders_until(invoice: &Invoice, settings: &BillingSettings, now: Time) -> (u32, u32) {
    let before = settings.remind_before;
    // An invoice that is due within that time from its date needs no reminder in addition to its own mail.
    let is_apart = before > Duration::ZERO && invoice.due_at.since(invoice.issued_at) > before;
    let early = is_apart && now.plus(before) >= invoice.due_at;
    let overdue = settings.reminders.iter().filter(|after| now >= invoice.due_at.plus(**after)).count();
    (u32::from(early), u32::try_from(overdue).unwrap_or(u32::MAX - 1))
}

/// Notifies the members who may read bills about a payment. The invoice is already paid, so an error is only logged.
pub(in crate::action) async fn confirm_payment(app: &AppState, invoice: &Invoice) {
    let text = format!("Invoice {} is paid", invoice.number);
    let dash_url = &app.settings.dash_url;
    let mail = |_: &User, to: Address| Mail::payment_received(to, invoice, dash_url);
    if let Err(error) = raise_with(app, invoice.tenant, NotificationKind::Invoice, &text, mail).await {
        tracing::warn!(%error, number = %invoice.number, "members could not be notified of a payment");
    }
}

#[cfg(test)]
mod tests;

//! The invoices of all tenants, and credit notes.

use crate::action::actor::Actor;
use crate::action::billing::dunning::confirm_payment;
use crate::action::billing::month::BillingMonth;
use crate::action::{suspensions, text};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_store::{
    CreditNote, Invoice, InvoiceFilter, InvoiceNumber, InvoiceStatus, NewCreditNote, UnmatchedPayment,
    WholeInvoice,
};

const UNKNOWN: ActionError = ActionError::NotFound("invoice");

/// Lists at most `limit` invoices, the newest first, after the position `before`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    filter: InvoiceFilter,
    before: Option<InvoiceNumber>,
    limit: u64,
) -> Result<Vec<Invoice>, ActionError> {
    Ok(app.store.invoices(filter, before, limit).await?)
}

/// Lists at most `limit` overdue invoices, the oldest first, after the position `after`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn overdue(
    app: &AppState,
    after: Option<InvoiceNumber>,
    limit: u64,
) -> Result<Vec<Invoice>, ActionError> {
    Ok(app.store.oldest_overdue(after, limit, app.now()).await?)
}

/// Lists the last 1,000 payments that match nothing, the newest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn unmatched_payments(app: &AppState) -> Result<Vec<UnmatchedPayment>, ActionError> {
    Ok(app.store.unmatched_payments(u64::MAX).await?)
}

/// Returns an invoice of any tenant.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn get(app: &AppState, number: InvoiceNumber) -> Result<WholeInvoice, ActionError> {
    app.store.any_invoice(number).await?.ok_or(UNKNOWN)
}

/// Marks an invoice as paid or cancelled, and returns it. A repeated call changes nothing. A tenant that was suspended
/// because of the invoice is reactivated, unless another invoice keeps it suspended.
///
/// # Errors
/// [`ActionError::NotFound`]; [`ActionError::Conflict`] for an invoice with the other status; [`ActionError::Invalid`]
/// for an invalid note; [`ActionError::Unavailable`].
pub async fn settle(
    app: &AppState,
    actor: &Actor,
    number: InvoiceNumber,
    status: InvoiceStatus,
    note: Option<&str>,
) -> Result<WholeInvoice, ActionError> {
    let note = note.map(|note| text::prose("note", note)).transpose()?;
    let now = app.now();
    let tenant = app.store.any_invoice(number).await?.ok_or(UNKNOWN)?.invoice.tenant;
    let action = match status {
        InvoiceStatus::Void => "invoice.cancelled",
        InvoiceStatus::Open | InvoiceStatus::Paid => "invoice.paid",
    };
    let detail = note.as_deref().unwrap_or_default();
    let store = actor.audited_store(&app.store, Some(tenant), (action, number, detail), now);
    let settled = store.settle_invoice(number, status, note.as_deref(), now).await?;
    if settled.is_new && status == InvoiceStatus::Paid {
        confirm_payment(app, &settled.invoice).await;
    }
    if settled.reactivates {
        suspensions::notify(app, tenant, false, None).await;
    }
    get(app, number).await
}

/// Issues a credit note of `cents`, including tax, for an invoice. With `seen_credited`, it is issued only if that is
/// the sum credited before.
///
/// # Errors
/// [`ActionError::NotFound`]; [`ActionError::Conflict`] for a cancelled invoice; [`ActionError::Full`] for more than
/// the invoice leaves; [`ActionError::Invalid`] for an invalid amount or reason; [`ActionError::Unavailable`].
pub async fn credit(
    app: &AppState,
    actor: &Actor,
    number: InvoiceNumber,
    cents: u64,
    reason: &str,
    seen_credited: Option<u64>,
) -> Result<(Invoice, CreditNote), ActionError> {
    if cents == 0 {
        return Err(ActionError::named("cents", "must be at least 1"));
    }
    let reason = text::prose("reason", reason)?;
    let now = app.now();
    let tenant = app.store.any_invoice(number).await?.ok_or(UNKNOWN)?.invoice.tenant;
    let detail = format!("{cents} cents");
    let store = actor.audited_store(&app.store, Some(tenant), ("invoice.credited", number, detail), now);
    let year = BillingMonth::of(now).year();
    let new = NewCreditNote { invoice: number, year, cents, reason, user: actor.user_id(), seen_credited };
    let (settled, note) = store.issue_credit_note(&new, now).await?;
    if settled.reactivates {
        suspensions::notify(app, tenant, false, None).await;
    }
    Ok((settled.invoice, note))
}

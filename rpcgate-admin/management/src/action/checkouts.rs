//! Payments through the payment provider.
//!
//! A checkout is stored before the provider is called, so that every event of the provider finds it. The purpose of a
//! payment is carried out once, when the provider reports its completion, regardless of duplicate or reordered events.

use super::actor::Actor;
use super::billing::dunning::confirm_payment;
use super::notifications::raise_about;
use super::plans::RequestedPlan;
use super::suspensions;
use super::tenants::own_tenant;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::mail::MailObject;
use crate::payment::{EventError, PaymentError, PaymentEvent, PaymentOrder, PaymentProvider};
use http::HeaderMap;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{
    Checkout, CheckoutId, CheckoutOutcome, CheckoutSubject, InvoiceFilter, InvoiceNumber, InvoiceStatus,
    NotificationKind, PaymentReport, UnmatchedPayment, fresh_id,
};
use std::net::IpAddr;

const NO_PROVIDER: ActionError = ActionError::Conflict("billing provider not configured");

impl From<PaymentError> for ActionError {
    fn from(error: PaymentError) -> Self {
        match error {
            PaymentError::Unavailable(_) => ActionError::Unavailable(error.to_string()),
            PaymentError::Refused(_) => ActionError::Broken(error.to_string()),
        }
    }
}

/// The subject of a member's payment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckoutWish {
    /// An invoice.
    Invoice(InvoiceNumber),
    /// The change to a plan that the member may see.
    Plan(RequestedPlan),
}

/// Returns the subject of a checkout for `wish`, its amount in cents, and its displayed name.
async fn subject(
    app: &AppState,
    provider: &dyn PaymentProvider,
    actor: &Actor,
    tenant: TenantId,
    wish: &CheckoutWish,
) -> Result<(CheckoutSubject, u64, String), ActionError> {
    match wish {
        CheckoutWish::Invoice(number) => {
            let number = *number;
            let found = app.store.invoice(tenant, number).await?;
            let invoice = found.ok_or(ActionError::NotFound("invoice"))?.invoice;
            if invoice.status != InvoiceStatus::Open {
                return Err(ActionError::Conflict("this invoice is not open"));
            }
            let cents = invoice.due_cents();
            if cents < provider.least_cents() {
                return Err(ActionError::Conflict("this amount is too small for the payment provider"));
            }
            Ok((CheckoutSubject::Invoice(number), cents, number.to_string()))
        }
        CheckoutWish::Plan(requested) => {
            let plan = requested.find(app, actor, "tier").await?;
            if plan.plan.price.0 == 0 && plan.monthly_fee == 0 {
                return Err(ActionError::named("tier", "must be a paid plan"));
            }
            let current = app.store.tenant(tenant).await?.ok_or(ActionError::NotFound("tenant"))?;
            if current.plan() == plan.of {
                return Err(ActionError::Conflict("the tenant has this plan already"));
            }
            let overdue = InvoiceFilter {
                tenant: Some(tenant),
                status: Some(InvoiceStatus::Open),
                due_by: Some(app.now()),
                ..InvoiceFilter::default()
            };
            if !app.store.invoices(overdue, None, 1).await?.is_empty() {
                return Err(ActionError::Conflict("an invoice is overdue: pay it first"));
            }
            Ok((CheckoutSubject::Plan(plan.of), 0, plan.name))
        }
    }
}

/// Begins a payment, or a change of the plan, and returns the URL of the provider's page. A repeated request within a
/// day returns the same page.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant and an unknown invoice; [`ActionError::Conflict`] without a provider,
/// for an invoice that is not open, for the plan in force, and while an invoice is overdue; [`ActionError::Full`] for
/// too many checkouts in a day; [`ActionError::Invalid`] for a plan that costs nothing or that the caller cannot see;
/// `ActionError::UNCONFIRMED` if the caller's address is not confirmed; [`ActionError::Unavailable`].
pub async fn begin(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    wish: &CheckoutWish,
) -> Result<String, ActionError> {
    let tenant = own_tenant(actor, tenant)?;
    actor.expect_confirmed()?;
    let provider = app.payments.as_ref().ok_or(NO_PROVIDER)?;
    let (subject, cents, detail) = subject(app, &**provider, actor, tenant, wish).await?;
    let now = app.now();
    let new = Checkout {
        id: CheckoutId(fresh_id(now)),
        tenant,
        user: Some(actor.user.id),
        subject,
        cents,
        url: None,
        session: None,
        created_at: now,
        completed_at: None,
    };
    // Outside the run of an idempotency key: a repeated request has no further effect, so a request that failed because
    // the provider was unavailable can be sent again with the same key.
    let entry = actor.entry(Some(tenant), ("checkout.begun", new.id, detail), now);
    let checkout = app.store.with_audit_entry(entry).begin_checkout(&new).await?;
    if let Some(url) = checkout.url {
        return Ok(url);
    }
    // An earlier request may have been sent without an answer. The provider recognizes the same order.
    let order = PaymentOrder {
        id: checkout.id,
        subject,
        cents,
        email: actor.user.email.clone(),
        return_url: format!("{}/", app.settings.dash_url),
    };
    let begun = match provider.begin(&order).await {
        Ok(begun) => begun,
        Err(error) => {
            if let PaymentError::Refused(_) = error {
                // The provider would refuse it again.
                app.store.end_checkout(checkout.id, None).await?;
            }
            return Err(error.into());
        }
    };
    app.store.set_checkout_page(checkout.id, &begun.url, &begun.session).await?;
    Ok(begun.url)
}

/// Processes an event of the payment provider: the headers and the unchanged body of a request.
///
/// # Errors
/// [`ActionError::Conflict`] without a provider; [`ActionError::Invalid`] for an event that is not signed or cannot be
/// read, and [`ActionError::TooMany`] after many of those from one address; [`ActionError::Unavailable`], after which
/// the provider sends it again.
pub async fn receive(
    app: &AppState,
    from: IpAddr,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), ActionError> {
    let provider = app.payments.as_ref().ok_or(NO_PROVIDER)?;
    let event = match provider.read_event(headers, body, app.now()) {
        Ok(event) => event,
        Err(error) => {
            if error == EventError::Signature {
                app.limits.anonymous.admit(from)?;
            }
            tracing::warn!(%error, %from, "an event of the payment provider is refused");
            return Err(ActionError::invalid(error.to_string()));
        }
    };
    match event {
        PaymentEvent::Other => Ok(()),
        PaymentEvent::Ended { id, session } => Ok(app.store.end_checkout(id, Some(&session)).await?),
        PaymentEvent::Completed(report) => complete(app, &report).await,
    }
}

async fn complete(app: &AppState, report: &PaymentReport) -> Result<(), ActionError> {
    let session = &report.session;
    match app.store.complete_checkout(report, app.now()).await? {
        CheckoutOutcome::Paid(settled, rest) => {
            let invoice = &settled.invoice;
            tracing::info!(session, number = %invoice.number, "an invoice was paid");
            if let Some(rest) = &rest {
                report_unmatched(app, rest).await;
            }
            confirm_payment(app, invoice).await;
            if settled.reactivates {
                suspensions::notify(app, invoice.tenant, false, None).await;
            }
        }
        CheckoutOutcome::Moved(tenant) => {
            tracing::info!(session, %tenant, "a tenant has moved to a plan");
        }
        CheckoutOutcome::Before => tracing::debug!(session, "a payment was reported again"),
        CheckoutOutcome::Unmatched(payment) => report_unmatched(app, &payment).await,
    }
    Ok(())
}

/// Reports a payment that matches nothing: to operators in the log, and in a notification to the tenant's members who
/// may read bills. The payment is already recorded, so an error is only logged.
async fn report_unmatched(app: &AppState, payment: &UnmatchedPayment) {
    let amount = payment.amount();
    let why = &payment.reason;
    let session = &payment.session;
    tracing::error!(session, amount, why, "a payment matches nothing that is due");
    let Some(tenant) = payment.tenant else { return };
    let about = payment.invoice.map_or_else(String::new, |number| format!(" for invoice {number}"));
    let text = format!("A payment of {amount}{about} could not be assigned: {why}");
    let object = payment.invoice.map_or(MailObject::Billing, MailObject::Invoice);
    if let Err(error) = raise_about(app, tenant, NotificationKind::Invoice, &text, |_| object).await {
        tracing::warn!(%error, %tenant, "members could not be notified of a payment");
    }
}

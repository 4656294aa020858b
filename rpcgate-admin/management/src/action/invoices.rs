//! The invoices of a tenant.

use super::actor::Actor;
use super::tenants::own_tenant;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{Invoice, InvoiceFilter, InvoiceNumber, InvoiceStatus, WholeInvoice};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of an invoice, which depends on the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvoiceState {
    /// Not paid, and not due yet.
    Open,
    /// Paid, or nothing of it is owed any more.
    Paid,
    /// Not paid, although it is due.
    Overdue,
    /// Cancelled.
    Void,
}

impl InvoiceState {
    /// Returns the state of an invoice at `now`.
    pub fn of(invoice: &Invoice, now: Time) -> Self {
        match invoice.status {
            InvoiceStatus::Open if invoice.is_overdue(now) => InvoiceState::Overdue,
            InvoiceStatus::Open => InvoiceState::Open,
            InvoiceStatus::Paid => InvoiceState::Paid,
            InvoiceStatus::Void => InvoiceState::Void,
        }
    }

    /// Returns the filter for invoices that are in `state` at `now`, or for all invoices without a state.
    pub fn filter_of(state: Option<Self>, now: Time) -> InvoiceFilter {
        let with = |status| InvoiceFilter { status: Some(status), ..InvoiceFilter::default() };
        match state {
            None => InvoiceFilter::default(),
            Some(InvoiceState::Open) => InvoiceFilter { due_after: Some(now), ..with(InvoiceStatus::Open) },
            Some(InvoiceState::Overdue) => InvoiceFilter { due_by: Some(now), ..with(InvoiceStatus::Open) },
            Some(InvoiceState::Paid) => with(InvoiceStatus::Paid),
            Some(InvoiceState::Void) => with(InvoiceStatus::Void),
        }
    }
}

/// Lists at most `limit` invoices of the caller's tenant, the newest first, after the position `before`.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    before: Option<InvoiceNumber>,
    limit: u64,
) -> Result<Vec<Invoice>, ActionError> {
    let filter = InvoiceFilter { tenant: Some(own_tenant(actor, tenant)?), ..InvoiceFilter::default() };
    Ok(app.store.invoices(filter, before, limit).await?)
}

/// Returns an invoice of the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant and an unknown number, [`ActionError::Unavailable`].
pub async fn get(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    number: InvoiceNumber,
) -> Result<WholeInvoice, ActionError> {
    let found = app.store.invoice(own_tenant(actor, tenant)?, number).await?;
    found.ok_or(ActionError::NotFound("invoice"))
}

//! Routes of the invoices of all tenants, and of credit notes.

use crate::api::invoices::page_of;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::invoices::InvoiceState;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, Query};
use rpcgate_management::shape::invoices::{CreditNoteJson, InvoiceJson, InvoiceSummaryJson};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::invoices::{InvoiceChange, NewCreditNoteJson, SettlementJson};
use rpcgate_store::{InvoiceFilter, InvoiceNumber, InvoiceStatus};
use serde::Deserialize;
use std::sync::Arc;

/// The filter of invoices.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct InvoiceQuery {
    /// Only invoices of this tenant.
    pub tenant_id: Option<String>,
    /// Only invoices in this state.
    pub status: Option<InvoiceState>,
}

/// List the invoices of all tenants
///
/// Newest first.
#[utoipa::path(get, path = "/operator/invoices", operation_id = "operator_list_invoices", tag = "operator",
    params(("tenant_id" = Option<String>, Query, format = "uuid", description = "Only invoices of this tenant."),
        ("status" = Option<InvoiceState>, Query, description = "Only invoices in this state."), Page),
    responses((status = 200, description = "The invoices, without their lines.", body = [InvoiceSummaryJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(query): Query<InvoiceQuery>,
) -> Result<ListPage<InvoiceSummaryJson>, ActionError> {
    let before = page.read(|cursor| cursor.parse::<InvoiceNumber>().ok())?;
    let tenant = query.tenant_id.map(|id| id.parse()).transpose();
    let tenant = tenant.map_err(|_| ActionError::named("tenant_id", "must be a UUID"))?;
    let now = app.now();
    let filter = InvoiceFilter { tenant, ..InvoiceState::filter_of(query.status, now) };
    let invoices = action::operator::invoices::list(&app, filter, before, page.limit).await?;
    Ok(page_of(page, invoices, now))
}

/// Read an invoice of any tenant
#[utoipa::path(get, path = "/operator/invoices/{number}", operation_id = "operator_get_invoice", tag = "operator",
    responses((status = 200, description = "The invoice.", body = InvoiceJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    Id(number): Id<InvoiceNumber>,
) -> Result<Json<InvoiceJson>, ActionError> {
    let invoice = action::operator::invoices::get(&app, number).await?;
    Ok(Json(InvoiceJson::of(invoice, app.now())))
}

/// Mark an invoice as paid or cancelled
///
/// A tenant that was suspended because of this invoice is served again, unless another invoice keeps it suspended.
#[utoipa::path(put, path = "/operator/invoices/{number}", operation_id = "operator_settle_invoice", tag = "operator",
    request_body = InvoiceChange,
    responses((status = 200, description = "The invoice as it is now.", body = InvoiceJson),
        (status = 409, description = "It has been paid or cancelled already.")))]
pub async fn settle(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(number): Id<InvoiceNumber>,
    Body(InvoiceChange { status, note }): Body<InvoiceChange>,
) -> Result<Json<InvoiceJson>, ActionError> {
    let status = match status {
        SettlementJson::Paid => InvoiceStatus::Paid,
        SettlementJson::Void => InvoiceStatus::Void,
    };
    let invoice = action::operator::invoices::settle(&app, &actor, number, status, note.as_deref()).await?;
    Ok(Json(InvoiceJson::of(invoice, app.now())))
}

/// Issue a credit note
///
/// Reduces the amount that is owed for the invoice. The invoice is paid when nothing is owed any more. A credit note
/// for a paid invoice documents a refund.
#[utoipa::path(post, path = "/operator/invoices/{number}/credit-notes", operation_id = "operator_create_credit_note",
    tag = "operator",
    request_body = NewCreditNoteJson,
    responses((status = 201, description = "The credit note.", body = CreditNoteJson),
        (status = 409, description = "The invoice is cancelled, or the amount exceeds what is left of it.")))]
pub async fn credit(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(number): Id<InvoiceNumber>,
    Body(NewCreditNoteJson { cents, reason }): Body<NewCreditNoteJson>,
) -> Result<(StatusCode, Json<CreditNoteJson>), ActionError> {
    let (_, note) = action::operator::invoices::credit(&app, &actor, number, cents, &reason, None).await?;
    Ok((StatusCode::CREATED, Json(note.into())))
}

//! The invoices of all tenants, and credit notes.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::api::invoices::{
    CreditNoteJson, InvoiceJson, InvoiceStateJson, InvoiceSummaryJson, page_of,
};
use crate::management::api::list::{ListPage, Page, PageRequest};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Id, Query};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::clock::Time;
use rpcgate_store::{InvoiceFilter, InvoiceNumber, InvoiceStatus};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The filter of invoices.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct InvoiceQuery {
    /// Only invoices of this tenant.
    pub tenant_id: Option<String>,
    /// Only invoices in this state.
    pub status: Option<InvoiceStateJson>,
}

/// What becomes of an invoice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Settlement)]
pub enum SettlementJson {
    /// It is paid.
    Paid,
    /// It is cancelled.
    Void,
}

/// An operator's decision about an invoice.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvoiceChange {
    /// Paid or cancelled.
    pub status: SettlementJson,
    /// A note for the tenant, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub note: Option<String>,
}

/// A new credit note.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCreditNote)]
pub struct NewCreditNoteJson {
    /// The amount with tax, in cents.
    #[schema(minimum = 1)]
    pub cents: u64,
    /// The reason, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
}

/// The filter for invoices that are in this state at `now`.
pub(crate) fn filter_of(state: Option<InvoiceStateJson>, now: Time) -> InvoiceFilter {
    let (all, open) = (InvoiceFilter::default(), Some(InvoiceStatus::Open));
    let status = |status| InvoiceFilter { status, ..all };
    match state {
        None => all,
        Some(InvoiceStateJson::Open) => InvoiceFilter { due_after: Some(now), ..status(open) },
        Some(InvoiceStateJson::Overdue) => InvoiceFilter { due_by: Some(now), ..status(open) },
        Some(InvoiceStateJson::Paid) => status(Some(InvoiceStatus::Paid)),
        Some(InvoiceStateJson::Void) => status(Some(InvoiceStatus::Void)),
    }
}

/// List the invoices of all tenants
///
/// The newest first.
#[utoipa::path(get, path = "/operator/invoices", operation_id = "operator_list_invoices", tag = "operator",
    params(("tenant_id" = Option<String>, Query, format = "uuid", description = "Only invoices of this tenant."),
        ("status" = Option<InvoiceStateJson>, Query, description = "Only invoices in this state."), Page),
    responses((status = 200, description = "The invoices, without their lines.", body = [InvoiceSummaryJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(query): Query<InvoiceQuery>,
) -> Result<ListPage<InvoiceSummaryJson>, ActionError> {
    let before = page.read(|cursor| cursor.parse::<InvoiceNumber>().ok())?;
    let tenant = query.tenant_id.map(|id| id.parse()).transpose();
    let tenant = tenant.map_err(|_| ActionError::Invalid("`tenant_id` must be a UUID".into()))?;
    let now = app.now();
    let filter = InvoiceFilter { tenant, ..filter_of(query.status, now) };
    let invoices = action::operator::invoices::list(&app, filter, before, page.limit).await?;
    Ok(page_of(page, invoices, now))
}

/// Read an invoice of any tenant
#[utoipa::path(get, path = "/operator/invoices/{number}", operation_id = "operator_get_invoice", tag = "operator",
    params(("number" = String, Path, description = "The number of the invoice.")),
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
    params(("number" = String, Path, description = "The number of the invoice.")),
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
/// It reduces what is owed for the invoice, which is paid once nothing of it is owed any more. A credit note for a paid
/// invoice documents a refund.
#[utoipa::path(post, path = "/operator/invoices/{number}/credit-notes", operation_id = "operator_create_credit_note",
    tag = "operator",
    params(("number" = String, Path, description = "The number of the invoice.")),
    request_body = NewCreditNoteJson,
    responses((status = 201, description = "The credit note.", body = CreditNoteJson),
        (status = 409, description = "The invoice is cancelled, or leaves less than this.")))]
pub async fn credit(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(number): Id<InvoiceNumber>,
    Body(NewCreditNoteJson { cents, reason }): Body<NewCreditNoteJson>,
) -> Result<(StatusCode, Json<CreditNoteJson>), ActionError> {
    let (_, note) = action::operator::invoices::credit(&app, &actor, number, cents, &reason, None).await?;
    Ok((StatusCode::CREATED, Json(note.into())))
}

//! Routes of the invoices of the caller's tenant.

use super::accept::prefers_html;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{HeaderValue, VARY};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::document::printed;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Ids};
use rpcgate_management::shape::invoices::{InvoiceJson, InvoiceSummaryJson};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_store::InvoiceNumber;
use std::sync::Arc;

/// Returns a page of invoices. The next page continues after the last invoice.
pub(super) fn page_of(
    page: PageRequest,
    invoices: Vec<rpcgate_store::Invoice>,
    now: Time,
) -> ListPage<InvoiceSummaryJson> {
    let last = invoices.last().filter(|_| invoices.len() as u64 == page.limit);
    let next = last.map(|last| last.number.to_string());
    page.page(invoices, next).map(|invoice| InvoiceSummaryJson::of(&invoice, now))
}

/// List the invoices of a tenant
///
/// Newest first.
#[utoipa::path(get, path = "/tenants/{id}/invoices", operation_id = "list_invoices", tag = "billing",
    params(Page),
    responses((status = 200, description = "The invoices, without their lines.", body = [InvoiceSummaryJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    page: PageRequest,
) -> Result<ListPage<InvoiceSummaryJson>, ActionError> {
    let before = page.read(|cursor| cursor.parse::<InvoiceNumber>().ok())?;
    let invoices = action::invoices::list(&app, &actor, id, before, page.limit).await?;
    Ok(page_of(page, invoices, app.now()))
}

/// Read an invoice
///
/// With `Accept: text/html` the response is a printable page.
#[utoipa::path(get, path = "/tenants/{id}/invoices/{number}", operation_id = "get_invoice", tag = "billing",
    responses((status = 200, description = "The invoice.",
        content((InvoiceJson = "application/json"), (String = "text/html")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(id, number): Ids<TenantId, InvoiceNumber>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let invoice = action::invoices::get(&app, &actor, id, number).await?;
    let mut answer = if prefers_html(&headers) {
        printed::invoice(&invoice, app.now())
    } else {
        Json(InvoiceJson::of(invoice, app.now())).into_response()
    };
    answer.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}

#[cfg(test)]
pub(crate) mod tests;

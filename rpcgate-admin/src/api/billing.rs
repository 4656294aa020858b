//! Routes of the current month's bill.

use super::accept::prefers_html;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{HeaderValue, VARY};
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::document::printed;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::shape::billing::Billing;
use std::sync::Arc;

/// Show what is owed for the current month
///
/// Includes the lines that the invoice would have if the month ended now, and the last invoices. The invoice is issued
/// some hours after the end of the month. With `Accept: text/html` the response is a printable page with the content of
/// that invoice, and says that it is not an invoice.
#[utoipa::path(get, path = "/tenants/{id}/billing", operation_id = "show_billing", tag = "billing",
    responses((status = 200, description = "The current month, and the last invoices.",
        content((Billing = "application/json"), (String = "text/html")))))]
pub async fn show(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let next = action::billing::next_invoice(&app, &actor, id).await?;
    let mut answer = if prefers_html(&headers) {
        printed::next_invoice(next)
    } else {
        let terms = action::billing::terms(&app, &actor, id).await?;
        Json(Billing::of(next, terms, app.now())).into_response()
    };
    answer.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}

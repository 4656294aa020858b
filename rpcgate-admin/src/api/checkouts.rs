//! Routes of payments through the payment provider.

use axum::Json;
use axum::extract::{Request, State};
use http::StatusCode;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::checkouts::CheckoutWish;
use rpcgate_management::action::plans::RequestedPlan;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id, read_body};
use rpcgate_management::shape::checkouts::{CheckoutJson, NewCheckout};
use std::sync::Arc;

/// The path, below that of the API, to which the payment provider sends its events.
pub const EVENTS: &str = "/billing/events";

/// Pay an invoice, or move to another plan
///
/// Returns the URL of a page of the payment provider. An invoice is paid there. For a plan, the customer leaves a
/// payment method there. The plan is in force as soon as the provider reports that, and is paid by invoices. A repeated
/// request within a day returns the same page.
#[utoipa::path(post, path = "/tenants/{id}/billing/checkout", operation_id = "create_checkout", tag = "billing",
    request_body = NewCheckout,
    responses((status = 201, description = "The page on which to pay.", body = CheckoutJson),
        (status = 409, description = "No payment provider is configured, or there is nothing to pay.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    Body(NewCheckout { tier, invoice }): Body<NewCheckout>,
) -> Result<(StatusCode, Json<CheckoutJson>), ActionError> {
    let invoice = invoice.map(|number| number.parse()).transpose();
    let invoice = invoice.map_err(|_| ActionError::named("invoice", "must be the number of an invoice"))?;
    let wish = match (tier, invoice) {
        (Some(tier), None) => CheckoutWish::Plan(RequestedPlan::of(tier)),
        (None, Some(number)) => CheckoutWish::Invoice(number),
        _ => return Err(ActionError::field("tier", "exactly one of `tier` and `invoice` must be given")),
    };
    let url = action::checkouts::begin(&app, &actor, id, &wish).await?;
    Ok((StatusCode::CREATED, Json(CheckoutJson { url })))
}

/// Takes a signed event from the payment provider. It is not an operation of the API, because only the provider can use
/// it.
pub async fn receive(
    State(app): State<Arc<AppState>>,
    client: Client,
    request: Request,
) -> Result<StatusCode, ActionError> {
    let headers = request.headers().clone();
    let body = read_body(request, &app).await?;
    action::checkouts::receive(&app, client.address, &headers, &body).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

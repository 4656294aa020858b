//! Routes of payments that match nothing.

use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::payments::UnmatchedPaymentJson;
use std::sync::Arc;

/// List the unmatched payments
///
/// The payment provider has reported them, but they belong to no checkout of this service, or match no amount that is
/// due. They settled nothing: refund each one at the payment provider, or settle the invoice by hand. Newest first.
#[utoipa::path(get, path = "/operator/payments", operation_id = "operator_list_payments", tag = "operator",
    params(Page),
    responses((status = 200, description = "The payments.", body = [UnmatchedPaymentJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
) -> Result<ListPage<UnmatchedPaymentJson>, ActionError> {
    let all = action::operator::invoices::unmatched_payments(&app).await?;
    page.of(all.into_iter().map(UnmatchedPaymentJson::from).collect(), true, |one| &one.id)
}

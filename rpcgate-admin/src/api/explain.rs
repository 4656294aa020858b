//! Routes of explanations of requests to a gateway.

use axum::Json;
use axum::extract::State;
use rpcgate_core::caller::RequestId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::shape::explain::ExplanationJson;
use std::sync::Arc;

/// Explain a request
///
/// Reports what decided the answer to a request to a gateway. The `x-request-id` of the answer identifies the request.
/// Members can read the requests of their tenant, operators those of all tenants. Gateways remember their latest
/// requests, for 24 hours at most. The answer takes up to two seconds.
#[utoipa::path(get, path = "/explain/{request_id}", operation_id = "explain_request", tag = "usage",
    responses((status = 200, description = "The explanation.", body = ExplanationJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(request): Id<RequestId>,
) -> Result<Json<ExplanationJson>, ActionError> {
    Ok(Json(action::explain::explain(&app, &actor, request).await?.into()))
}

#[cfg(test)]
mod tests;

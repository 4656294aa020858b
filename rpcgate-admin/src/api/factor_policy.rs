//! Routes of the rule of the caller's tenant about second factors.

use axum::Json;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::factor_policy;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id};
use rpcgate_management::shape::factor_policy::FactorPolicy;
use std::sync::Arc;

/// Show whether members need a second factor
#[utoipa::path(get, path = "/tenants/{id}/mfa", operation_id = "get_factor_policy", tag = "tenants",
    responses((status = 200, description = "The rule.", body = FactorPolicy)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
) -> Result<Json<FactorPolicy>, ActionError> {
    Ok(Json(FactorPolicy { required: factor_policy::get(&app, &actor, id).await? }))
}

/// Set whether members need a second factor
///
/// Takes effect at once, for all sessions in which no second factor was given. API keys are not affected. To end the
/// rule, a log-in session needs a proof from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(put, path = "/tenants/{id}/mfa", operation_id = "put_factor_policy", tag = "tenants",
    request_body = FactorPolicy,
    responses(
        (status = 200, description = "The rule as it is now.", body = FactorPolicy),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "The caller has no second factor.")))]
pub async fn put(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Id(id): Id<TenantId>,
    Body(FactorPolicy { required }): Body<FactorPolicy>,
) -> Result<Json<FactorPolicy>, ActionError> {
    let required = factor_policy::put(&app, &session, &client, id, required).await?;
    Ok(Json(FactorPolicy { required }))
}

#[cfg(test)]
mod tests;

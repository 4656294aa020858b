//! Routes of the weights of methods in Compute Units.

use crate::api::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, PathParams};
use rpcgate_management::shape::operator::weights::{NewWeight, WeightJson};
use std::sync::Arc;

/// Read the weight of a method
///
/// The weight that operators set, or else the deployed one.
#[utoipa::path(get, path = "/operator/cu-weights/{chain}/{method}", operation_id = "operator_get_weight",
    tag = "operator",
    params(("method" = String, Path, description = "The method, percent-encoded.")),
    responses((status = 200, description = "The weight.", body = WeightJson,
        headers(("ETag" = String, description = "The version, for `If-Match`."))),
        (status = 400, description = "No method can have this name.")))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    PathParams((chain, method)): PathParams<(String, String)>,
) -> Result<Tagged<WeightJson>, ActionError> {
    let version = current(&app, action::operator::weights::versioned(&chain, &method)?).await?;
    Ok(Tagged::new(version, action::operator::weights::get(&app, &chain, &method).await?.into()))
}

/// Set the weight of a method
///
/// Gateways apply it within a second.
#[utoipa::path(put, path = "/operator/cu-weights/{chain}/{method}", operation_id = "operator_put_weight",
    tag = "operator",
    params(("method" = String, Path, description = "The method, percent-encoded."),
        IfMatchHeader),
    request_body = NewWeight,
    responses((status = 200, description = "The weight.", body = WeightJson)))]
pub async fn put(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams((chain, method)): PathParams<(String, String)>,
    Body(NewWeight { cu }): Body<NewWeight>,
) -> Result<Json<WeightJson>, ActionError> {
    Ok(Json(action::operator::weights::put(&app, &actor, &chain, &method, cu).await?.into()))
}

/// Delete the weight that was set for a method
///
/// The deployed weight applies again.
#[utoipa::path(delete, path = "/operator/cu-weights/{chain}/{method}", operation_id = "operator_delete_weight",
    tag = "operator",
    params(("method" = String, Path, description = "The method, percent-encoded."),
        IfMatchHeader),
    responses((status = 204, description = "The deployed weight applies again."),
        (status = 400, description = "No method can have this name.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams((chain, method)): PathParams<(String, String)>,
) -> Result<StatusCode, ActionError> {
    action::operator::weights::delete(&app, &actor, &chain, &method).await?;
    Ok(StatusCode::NO_CONTENT)
}

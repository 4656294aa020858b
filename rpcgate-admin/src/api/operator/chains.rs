//! Routes of the switches and caches of chains.

use crate::api::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, PathParams};
use rpcgate_management::shape::chains::ChainJson;
use rpcgate_management::shape::operator::chains::ChainSwitch;
use std::sync::Arc;

/// Read a chain and its switch
#[utoipa::path(get, path = "/operator/chains/{chain}", operation_id = "operator_get_chain", tag = "operator",
    responses((status = 200, description = "The chain.", body = ChainJson,
        headers(("ETag" = String, description = "The version of the switch, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    PathParams(chain): PathParams<String>,
) -> Result<Tagged<ChainJson>, ActionError> {
    let version = current(&app, action::operator::chains::versioned(&chain)?).await?;
    Ok(Tagged::new(version, action::operator::chains::get(&app, &chain).await?.into()))
}

/// Switch a chain on or off
///
/// A chain that the configuration disables stays off. Gateways apply the switch within a second.
#[utoipa::path(put, path = "/operator/chains/{chain}", operation_id = "operator_switch_chain", tag = "operator",
    params(IfMatchHeader),
    request_body = ChainSwitch,
    responses((status = 200, description = "The chain as it is now.", body = ChainJson)))]
pub async fn switch(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams(chain): PathParams<String>,
    Body(ChainSwitch { enabled }): Body<ChainSwitch>,
) -> Result<Json<ChainJson>, ActionError> {
    Ok(Json(action::operator::chains::switch(&app, &actor, &chain, enabled).await?.into()))
}

/// Empty the cache of a chain
///
/// Gateways do so within a second. They do not reuse answers that are stored or in flight at that time.
#[utoipa::path(delete, path = "/operator/chains/{chain}/cache", operation_id = "operator_clear_cache", tag = "operator",
    responses((status = 204, description = "The gateways are notified.")))]
pub async fn clear_cache(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams(chain): PathParams<String>,
) -> Result<StatusCode, ActionError> {
    action::operator::chains::clear_cache(&app, &actor, &chain).await?;
    Ok(StatusCode::NO_CONTENT)
}

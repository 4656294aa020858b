//! Routes of the chain catalog.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::chains::ChainJson;
use std::sync::Arc;

/// List the chains
///
/// The catalog, with the chains that are served here.
#[utoipa::path(get, path = "/chains", operation_id = "list_chains", tag = "catalog",
    responses((status = 200, description = "All chains.", body = [ChainJson])))]
pub async fn list(State(app): State<Arc<AppState>>) -> Result<Json<Vec<ChainJson>>, ActionError> {
    Ok(Json(action::chains::chains(&app).await?.into_iter().map(ChainJson::from).collect()))
}

//! Routes of the chain catalog.

use crate::management::action;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::shape::chains::ChainJson;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// List the chains
///
/// The catalog, with the chains that are served here.
#[utoipa::path(get, path = "/chains", operation_id = "list_chains", tag = "catalog",
    responses((status = 200, description = "All chains.", body = [ChainJson])))]
pub async fn list(State(app): State<Arc<AppState>>) -> Result<Json<Vec<ChainJson>>, ActionError> {
    Ok(Json(action::chains::chains(&app).await?.into_iter().map(ChainJson::from).collect()))
}

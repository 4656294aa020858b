//! Routes of plans.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::shape::plans::PlanJson;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// List the plans
///
/// The four built-in plans with their current limits, the smallest first; then the visible custom plans, and the one
/// that the caller's tenant is on.
#[utoipa::path(get, path = "/plans", operation_id = "list_plans", tag = "catalog",
    responses((status = 200, description = "All plans.", body = [PlanJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    actor: Actor,
) -> Result<Json<Vec<PlanJson>>, ActionError> {
    let plans = action::plans::plans(&app, &actor).await?;
    Ok(Json(plans.into_iter().map(PlanJson::from).collect()))
}

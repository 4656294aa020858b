//! Plans.

use crate::management::action;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use axum::Json;
use axum::extract::State;
use rpcgate_core::plan;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The limits of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Plan)]
pub struct PlanJson {
    /// Its name: free, standard, premium or enterprise.
    #[schema(example = "standard")]
    pub tier: &'static str,
    /// Requests a key may make in a UTC minute.
    pub per_minute: u64,
    /// Requests a key may make in a UTC hour.
    pub per_hour: u64,
    /// Requests a key may make in a UTC day.
    pub per_day: u64,
    /// Price of a Compute Unit in US dollars.
    #[schema(example = 0.001)]
    pub price_per_cu: f64,
}

impl From<plan::Plan> for PlanJson {
    fn from(plan: plan::Plan) -> Self {
        PlanJson {
            tier: plan.tier.name(),
            per_minute: plan.per_minute,
            per_hour: plan.per_hour,
            per_day: plan.per_day,
            price_per_cu: plan.price.usd(),
        }
    }
}

/// List the plans
///
/// With the limits that are in force, the smallest plan first.
#[utoipa::path(get, path = "/plans", operation_id = "list_plans", tag = "catalog",
    responses((status = 200, description = "All plans.", body = [PlanJson])))]
pub async fn list(State(app): State<Arc<AppState>>) -> Result<Json<Vec<PlanJson>>, ActionError> {
    Ok(Json(action::plans::plans(&app).await?.map(PlanJson::from).into()))
}

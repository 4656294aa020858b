//! Plans.

use crate::action;
use crate::error::ActionError;
use crate::house::House;
use axum::Json;
use axum::extract::State;
use rpcgate_core::plan;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The figures of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct Plan {
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

impl From<plan::Plan> for Plan {
    fn from(plan: plan::Plan) -> Self {
        Plan {
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
/// With the figures that are in force now, the smallest plan first.
#[utoipa::path(get, path = "/plans", operation_id = "list_plans", tag = "catalog",
    responses((status = 200, description = "All plans.", body = [Plan])))]
pub async fn list(State(house): State<Arc<House>>) -> Result<Json<Vec<Plan>>, ActionError> {
    Ok(Json(action::plans::plans(&house).await?.map(Plan::from).into()))
}

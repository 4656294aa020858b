//! Routes of plans.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::plans::PlanJson;
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

#[cfg(test)]
mod tests {
    use crate::testing::{NOON, Site};
    use axum::body::Body;
    use http::Method;
    use rpcgate_config::PlanChange;
    use rpcgate_core::plan::Tier;
    use rpcgate_store::Role;
    use serde_json::json;

    #[tokio::test]
    async fn settings_of_operators_override_the_file_and_the_file_overrides_the_defaults() {
        let site = Site::of("[plans.free]\nper_minute = 20\nper_hour = 600\n").await;
        let change = PlanChange { per_minute: Some(30), ..PlanChange::default() };
        site.app.store.put_plan(Tier::Free, &change, NOON).await.unwrap();
        let viewer = site.member(Role::Viewer).await;
        let plans = site.ask(Some(&viewer), Method::GET, "/api/v1/plans", Body::empty()).await.body;
        let free = json!({"name": "free", "tier": "free", "per_minute": 30, "per_hour": 600, "per_day": 10_000,
            "price_per_cu": 0.0, "cu_per_day": 100_000, "cu_per_month": null, "rps_limit": null, "monthly_fee_cents": 0});
        assert_eq!(plans[0], free);
        assert_eq!((&plans[1]["name"], &plans[1]["per_minute"]), (&json!("standard"), &json!(50)));
        assert_eq!(plans.as_array().unwrap().len(), 4);
    }
}

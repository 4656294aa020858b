//! Routes of the built-in plans.

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
use rpcgate_management::shape::moment::Moment;
use rpcgate_management::shape::operator::plans::PlanFigures;
use rpcgate_management::shape::plan_change::PlanChangeJson;
use std::sync::Arc;

/// Read the figures of a plan
#[utoipa::path(get, path = "/operator/plans/{tier}", operation_id = "operator_get_plan", tag = "operator",
    responses((status = 200, description = "The plan as it is in force.", body = PlanFigures,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    PathParams(tier): PathParams<String>,
) -> Result<Tagged<PlanFigures>, ActionError> {
    let version = current(&app, action::operator::plans::versioned(&app, &tier)?).await?;
    Ok(Tagged::new(version, action::operator::plans::get(&app, &tier).await?.into()))
}

/// Change figures of a plan
///
/// Only the given figures change. Gateways apply them within a second, or within a second of the time `from`. A fee
/// applies from the UTC day of its change.
#[utoipa::path(put, path = "/operator/plans/{tier}", operation_id = "operator_update_plan", tag = "operator",
    params(IfMatchHeader),
    request_body = PlanChangeJson,
    responses((status = 200, description = "The plan as it is in force now.", body = PlanFigures),
        (status = 409, description = "The plan has the maximum number of scheduled changes.")))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams(tier): PathParams<String>,
    Body(change): Body<PlanChangeJson>,
) -> Result<Json<PlanFigures>, ActionError> {
    let from = change.from.map(|Moment(time)| time);
    let change = change.change()?;
    Ok(Json(action::operator::plans::update(&app, &actor, &tier, change, from).await?.into()))
}

/// Withdraw a later change of a plan
///
/// The change must not have taken effect yet.
#[utoipa::path(delete, path = "/operator/plans/{tier}/changes/{id}", operation_id = "operator_withdraw_plan_change",
    tag = "operator",
    params(("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version of the plan that is to be changed.")),
    responses((status = 204, description = "Withdrawn.")))]
pub async fn withdraw(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams((tier, id)): PathParams<(String, String)>,
) -> Result<StatusCode, ActionError> {
    let id = id.parse().map_err(|_| ActionError::NotFound("scheduled change"))?;
    action::operator::plans::withdraw(&app, &actor, &tier, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

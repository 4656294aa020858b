//! Routes of custom plans.

use crate::api::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::operator::custom_plans::NewCustomPlan;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::figures::FiguresJson;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::custom_plans::{
    CustomPlanChangeJson, CustomPlanJson, NewCustomPlanJson, PlanVisibility,
};
use rpcgate_store::{CustomPlanChange, Versioned};
use std::sync::Arc;

/// Create a custom plan
///
/// At most 100 custom plans can exist in addition to the four built-in ones. Move tenants to a plan with `PUT
/// /operator/tenants/{id}`.
#[utoipa::path(post, path = "/operator/custom-plans", operation_id = "operator_create_custom_plan", tag = "operator",
    request_body = NewCustomPlanJson,
    responses((status = 201, description = "The plan.", body = CustomPlanJson),
        (status = 409, description = "Another plan has this name, or there are too many custom plans.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Body(new): Body<NewCustomPlanJson>,
) -> Result<(StatusCode, Json<CustomPlanJson>), ActionError> {
    let NewCustomPlanJson { name, base_tier, visibility, figures } = new;
    let is_visible = visibility == PlanVisibility::Visible;
    let new = NewCustomPlan { name, base: base_tier.into(), is_visible, figures: figures.figures()? };
    let plan = action::operator::custom_plans::create(&app, &actor, new).await?;
    Ok((StatusCode::CREATED, Json(plan.into())))
}

/// List the custom plans
///
/// Oldest first.
#[utoipa::path(get, path = "/operator/custom-plans", operation_id = "operator_list_custom_plans", tag = "operator",
    params(Page),
    responses((status = 200, description = "All custom plans.", body = [CustomPlanJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
) -> Result<ListPage<CustomPlanJson>, ActionError> {
    let plans = action::operator::custom_plans::list(&app).await?;
    page.of(plans.into_iter().map(CustomPlanJson::from).collect(), false, |one| &one.id)
}

/// Read a custom plan
#[utoipa::path(get, path = "/operator/custom-plans/{id}", operation_id = "operator_get_custom_plan", tag = "operator",
    responses((status = 200, description = "The plan.", body = CustomPlanJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    Id(id): Id<CustomPlanId>,
) -> Result<Tagged<CustomPlanJson>, ActionError> {
    let version = current(&app, Versioned::CustomPlan(id)).await?;
    Ok(Tagged::new(version, action::operator::custom_plans::get(&app, id).await?.into()))
}

/// Change a custom plan
///
/// Gateways apply it within a second. A changed fee applies to the whole month of the change.
#[utoipa::path(put, path = "/operator/custom-plans/{id}", operation_id = "operator_update_custom_plan",
    tag = "operator",
    params(IfMatchHeader),
    request_body = CustomPlanChangeJson,
    responses((status = 200, description = "The plan as it is now.", body = CustomPlanJson),
        (status = 409, description = "Another plan has this name.")))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<CustomPlanId>,
    Body(change): Body<CustomPlanChangeJson>,
) -> Result<Json<CustomPlanJson>, ActionError> {
    let CustomPlanChangeJson { name, visibility, figures } = change;
    let is_visible = visibility.map(|visibility| visibility == PlanVisibility::Visible);
    let figures = figures.map(FiguresJson::figures).transpose()?;
    let change = CustomPlanChange { name, is_visible, figures };
    Ok(Json(action::operator::custom_plans::update(&app, &actor, id, change).await?.into()))
}

/// Delete a custom plan
///
/// No tenant may be on the plan.
#[utoipa::path(delete, path = "/operator/custom-plans/{id}", operation_id = "operator_delete_custom_plan",
    tag = "operator",
    params(IfMatchHeader),
    responses((status = 204, description = "Deleted."), (status = 409, description = "A tenant is on the plan.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<CustomPlanId>,
) -> Result<StatusCode, ActionError> {
    action::operator::custom_plans::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

//! Routes of requests for another plan.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::plans::{PlanNames, RequestedPlan};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Body;
use rpcgate_management::shape::limit_requests::{LimitRequestJson, NewLimitRequest};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::tenants::TierJson;
use std::sync::Arc;

/// Returns the plan that a body requests by `requested_tier` or `requested_plan`.
///
/// # Errors
/// [`ActionError::Invalid`] if it has both.
pub(super) fn requested(
    tier: Option<TierJson>,
    plan: Option<String>,
) -> Result<Option<RequestedPlan>, ActionError> {
    match (tier, plan) {
        (Some(tier), None) => Ok(Some(RequestedPlan::Tier(tier.into()))),
        (None, Some(text)) => Ok(Some(RequestedPlan::of(text))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(ActionError::named("requested_tier", "and `requested_plan` exclude each other"))
        }
    }
}

/// Request another plan
///
/// Operators decide. A tenant can have one pending request.
#[utoipa::path(post, path = "/limit-requests", operation_id = "create_limit_request", tag = "limit requests",
    request_body = NewLimitRequest,
    responses((status = 201, description = "The request.", body = LimitRequestJson),
        (status = 409, description = "Another request is pending.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Body(new): Body<NewLimitRequest>,
) -> Result<(StatusCode, Json<LimitRequestJson>), ActionError> {
    let NewLimitRequest { requested_tier, requested_plan, reason } = new;
    let requested = requested(requested_tier, requested_plan)?;
    let requested = requested.ok_or_else(|| ActionError::named("requested_tier", "is missing"))?;
    let request = action::limit_requests::create(&app, &actor, &requested, &reason).await?;
    Ok((StatusCode::CREATED, Json(LimitRequestJson::of(request, &PlanNames::read(&app).await?))))
}

/// List the requests for another plan
///
/// Newest first, at most 1,000.
#[utoipa::path(get, path = "/limit-requests", operation_id = "list_limit_requests", tag = "limit requests",
    params(Page),
    responses((status = 200, description = "The tenant's requests.", body = [LimitRequestJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
) -> Result<ListPage<LimitRequestJson>, ActionError> {
    let requests = action::limit_requests::list(&app, &actor).await?;
    let names = PlanNames::read(&app).await?;
    page.of(requests.into_iter().map(|one| LimitRequestJson::of(one, &names)).collect(), true, |one| &one.id)
}

#[cfg(test)]
mod tests;

//! Routes of all tenants' requests for another plan.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::plans::PlanNames;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, Query};
use rpcgate_management::shape::limit_requests::{LimitRequestJson, RequestStatusJson};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_management::shape::operator::limit_requests::{Review, VerdictJson};
use rpcgate_store::LimitRequestId;
use serde::Deserialize;
use std::sync::Arc;

/// The filter of requests.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct LimitRequestQuery {
    /// Only requests with this status.
    pub status: Option<RequestStatusJson>,
}

/// List the requests for another plan of all tenants
///
/// Newest first.
#[utoipa::path(get, path = "/operator/limit-requests", operation_id = "operator_list_limit_requests",
    tag = "operator",
   params(("status" = Option<RequestStatusJson>, Query, description = "Only requests with this status."), Page),
    responses((status = 200, description = "The requests.", body = [LimitRequestJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(query): Query<LimitRequestQuery>,
) -> Result<ListPage<LimitRequestJson>, ActionError> {
    let before = page.time_cursor()?;
    let status = query.status.map(Into::into);
    let requests = action::operator::limit_requests::list(&app, status, before, page.limit).await?;
    let page = page.cut(requests, |last| time_cursor(last.created_at, last.id));
    let names = PlanNames::read(&app).await?;
    Ok(page.map(|request| LimitRequestJson::of(request, &names)))
}

/// Decide a request for another plan
///
/// Approval moves the tenant to the plan.
#[utoipa::path(put, path = "/operator/limit-requests/{id}", operation_id = "operator_review_limit_request",
    tag = "operator",
    request_body = Review,
    responses((status = 200, description = "The request as it is now.", body = LimitRequestJson),
        (status = 409, description = "It has been decided already, or the requested plan was deleted.")))]
pub async fn review(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<LimitRequestId>,
    Body(Review { status, note }): Body<Review>,
) -> Result<Json<LimitRequestJson>, ActionError> {
    let verdict = match status {
        VerdictJson::Approved => rpcgate_store::Verdict::Approved,
        VerdictJson::Rejected => rpcgate_store::Verdict::Rejected,
    };
    let done = action::operator::limit_requests::review(&app, &actor, id, verdict, note.as_deref()).await?;
    Ok(Json(LimitRequestJson::of(done, &PlanNames::read(&app).await?)))
}

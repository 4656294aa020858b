//! Requests for another plan.

use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use super::tenants::TierJson;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Body;
use crate::store;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// The status of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RequestStatus)]
pub enum RequestStatusJson {
    /// Not decided yet.
    Pending,
    /// Approved: the tenant has got the plan.
    Approved,
    /// Rejected.
    Rejected,
}

impl From<store::RequestStatus> for RequestStatusJson {
    fn from(status: store::RequestStatus) -> Self {
        match status {
            store::RequestStatus::Pending => RequestStatusJson::Pending,
            store::RequestStatus::Approved => RequestStatusJson::Approved,
            store::RequestStatus::Rejected => RequestStatusJson::Rejected,
        }
    }
}

impl From<RequestStatusJson> for store::RequestStatus {
    fn from(status: RequestStatusJson) -> Self {
        match status {
            RequestStatusJson::Pending => store::RequestStatus::Pending,
            RequestStatusJson::Approved => store::RequestStatus::Approved,
            RequestStatusJson::Rejected => store::RequestStatus::Rejected,
        }
    }
}

/// A request for another plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = LimitRequest)]
pub struct LimitRequestJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The tenant that requests it.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The user who made the request.
    #[schema(format = "uuid")]
    pub user_id: String,
    /// The requested plan.
    pub requested_tier: TierJson,
    /// The reason given for it.
    pub reason: String,
    /// Its status.
    pub status: RequestStatusJson,
    /// A note of the operator who decided, or null.
    pub note: Option<String>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it was decided, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reviewed_at: Option<Moment>,
}

impl From<store::LimitRequest> for LimitRequestJson {
    fn from(request: store::LimitRequest) -> Self {
        LimitRequestJson {
            id: request.id.to_string(),
            tenant_id: request.tenant.to_string(),
            user_id: request.user.to_string(),
            requested_tier: request.requested_tier.into(),
            reason: request.reason,
            status: request.status.into(),
            note: request.note,
            created_at: request.created_at.into(),
            reviewed_at: request.reviewed_at.map(Moment),
        }
    }
}

/// A new request.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLimitRequest {
    /// The requested plan.
    pub requested_tier: TierJson,
    /// The reason, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
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
    let NewLimitRequest { requested_tier, reason } = new;
    let request = action::limit_requests::create(&app, &actor, requested_tier.into(), &reason).await?;
    Ok((StatusCode::CREATED, Json(request.into())))
}

/// List the requests for another plan
///
/// The newest first, at most 1,000.
#[utoipa::path(get, path = "/limit-requests", operation_id = "list_limit_requests", tag = "limit requests",
    params(Page),
    responses((status = 200, description = "The tenant's requests.", body = [LimitRequestJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
) -> Result<ListPage<LimitRequestJson>, ActionError> {
    let requests = action::limit_requests::list(&app, &actor).await?;
    page.of(requests.into_iter().map(LimitRequestJson::from).collect(), true, |one| &one.id)
}

#[cfg(test)]
mod tests;

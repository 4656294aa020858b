//! Requests of all tenants for another plan.

use super::tenants::limit;
use crate::action;
use crate::action::actor::Actor;
use crate::api::limit_requests::{LimitRequest, RequestStatus};
use crate::error::ActionError;
use crate::extract::{Asked, Body, Id};
use crate::house::House;
use crate::store::{self, LimitRequestId};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Which requests are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Wanted {
    /// Those that stand so.
    pub status: Option<RequestStatus>,
    /// How many.
    pub limit: Option<u32>,
}

/// How a request may be decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The tenant gets the plan.
    Approved,
    /// It does not.
    Rejected,
}

/// What an operator decides.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Approved or rejected.
    pub status: Verdict,
    /// What the tenant is told, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub note: Option<String>,
}

/// List the requests for another plan of all tenants
///
/// The newest first.
#[utoipa::path(get, path = "/operator/limit-requests", operation_id = "operator_list_limit_requests",
    tag = "operator",
    params(("status" = Option<RequestStatus>, Query, description = "Tell those that stand so."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "How many, 1 to 1,000, which is the default.")),
    responses((status = 200, description = "The requests.", body = [LimitRequest])))]
pub async fn list(
    State(house): State<Arc<House>>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Vec<LimitRequest>>, ActionError> {
    let (status, limit) = (wanted.status.map(Into::into), limit(wanted.limit)?);
    let requests = action::operator::limit_requests::list(&house, status, limit).await?;
    Ok(Json(requests.into_iter().map(LimitRequest::from).collect()))
}

/// Decide a request for another plan
///
/// Approval moves the tenant to the plan.
#[utoipa::path(put, path = "/operator/limit-requests/{id}", operation_id = "operator_review_limit_request",
    tag = "operator",
    params(("id" = String, Path, format = "uuid", description = "The request.")),
    request_body = Review,
    responses((status = 200, description = "The request as it is now.", body = LimitRequest),
        (status = 409, description = "It has been decided already.")))]
pub async fn review(
    State(house): State<Arc<House>>,
    actor: Actor,
    Id(id): Id<LimitRequestId>,
    Body(Review { status, note }): Body<Review>,
) -> Result<Json<LimitRequest>, ActionError> {
    let verdict = match status {
        Verdict::Approved => store::Verdict::Approved,
        Verdict::Rejected => store::Verdict::Rejected,
    };
    let done = action::operator::limit_requests::review(&house, &actor, id, verdict, note.as_deref());
    Ok(Json(done.await?.into()))
}

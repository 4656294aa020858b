//! Requests of all tenants for another plan.

use crate::action;
use crate::action::actor::Actor;
use crate::api::limit_requests::{LimitRequest, RequestStatus};
use crate::api::list::{Page, Part, Told};
use crate::error::ActionError;
use crate::extract::{Asked, Body, Id};
use crate::house::House;
use crate::store::{self, LimitRequestId};
use axum::Json;
use axum::extract::State;
use rpcgate_core::clock::Time;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Which requests are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Wanted {
    /// Those that stand so.
    pub status: Option<RequestStatus>,
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
    params(("status" = Option<RequestStatus>, Query, description = "Tell those that stand so."), Page),
    responses((status = 200, description = "The requests.", body = [LimitRequest])))]
pub async fn list(
    State(house): State<Arc<House>>,
    part: Part,
    Asked(wanted): Asked<Wanted>,
) -> Result<Told<LimitRequest>, ActionError> {
    let before = part.read(|cursor| {
        let (at, id) = cursor.split_once('-')?;
        Some((Time::from_micros(at.parse().ok()?), id.parse().ok()?))
    })?;
    let status = wanted.status.map(Into::into);
    let requests = action::operator::limit_requests::list(&house, status, before, part.limit).await?;
    let last = requests.last().filter(|_| requests.len() as u64 == part.limit);
    let next = last.map(|last| format!("{}-{}", last.created_at.micros(), last.id));
    Ok(part.told(requests, next).map(LimitRequest::from))
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

//! Routes of the quotas of projects.

use crate::api::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::ProjectId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::operator::quotas::{NewQuota, QuotaJson};
use rpcgate_store::Versioned;
use std::sync::Arc;

/// Read the quota of a project
///
/// The quota that an operator granted, or the default from the tenant's contracts or plan.
#[utoipa::path(get, path = "/operator/projects/{id}/quota", operation_id = "operator_get_quota", tag = "operator",
    responses((status = 200, description = "The quota.", body = QuotaJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    Id(id): Id<ProjectId>,
) -> Result<Tagged<QuotaJson>, ActionError> {
    let version = current(&app, Versioned::Quota(id)).await?;
    Ok(Tagged::new(version, QuotaJson::of(id, &action::operator::quotas::get(&app, id).await?)))
}

/// Set the quota of a project
///
/// Replaces the whole quota: fields that are left out get their defaults. Gateways apply it within a second.
#[utoipa::path(put, path = "/operator/projects/{id}/quota", operation_id = "operator_put_quota", tag = "operator",
    params(IfMatchHeader),
    request_body = NewQuota,
    responses((status = 200, description = "The quota.", body = QuotaJson)))]
pub async fn put(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
    Body(new): Body<NewQuota>,
) -> Result<Json<QuotaJson>, ActionError> {
    Ok(Json(QuotaJson::of(id, &action::operator::quotas::put(&app, &actor, id, new.into()).await?)))
}

/// Delete the quota of a project
///
/// The default applies again.
#[utoipa::path(delete, path = "/operator/projects/{id}/quota", operation_id = "operator_delete_quota",
    tag = "operator",
    params(IfMatchHeader),
    responses((status = 204, description = "It has the default.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<StatusCode, ActionError> {
    action::operator::quotas::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

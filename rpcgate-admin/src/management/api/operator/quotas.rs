//! Quotas of projects.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::versions::current;
use crate::management::api::etag::Tagged;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Id};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_config::QuotaChange;
use rpcgate_core::caller::{self, ProjectId};
use rpcgate_store::Versioned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// The quota of a project.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = ProjectQuota)]
pub struct QuotaJson {
    /// The project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// Compute Units in any rolling 24 hours; 0 refuses every call that costs units.
    pub cu_per_day: u64,
    /// Recorded, not enforced; or null.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project, or null.
    pub rps_limit: Option<u64>,
    /// Whether an operator has set it.
    pub has_quota_row: bool,
}

impl QuotaJson {
    /// The quota of `project`.
    pub fn of(project: ProjectId, quota: &caller::ProjectQuota) -> Self {
        let caller::ProjectQuota { cu_per_day, cu_per_month, rps_limit, has_row } = *quota;
        let project_id = project.to_string();
        QuotaJson { project_id, cu_per_day, cu_per_month, rps_limit, has_quota_row: has_row }
    }
}

/// A project's new quota.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewQuota {
    /// Compute Units in any rolling 24 hours; by default as many as the tenant's plan has now.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    pub cu_per_day: Option<u64>,
    /// Recorded, not enforced; by default as many as the plan allows.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project; by default as many as the plan allows.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    pub rps_limit: Option<u64>,
}

impl From<NewQuota> for QuotaChange {
    fn from(NewQuota { cu_per_day, cu_per_month, rps_limit }: NewQuota) -> Self {
        QuotaChange { cu_per_day, cu_per_month, rps_limit }
    }
}

/// Read the quota of a project
///
/// The quota that an operator granted, or the default: that of the tenant's contracts or plan.
#[utoipa::path(get, path = "/operator/projects/{id}/quota", operation_id = "operator_get_quota", tag = "operator",
    params(("id" = String, Path, format = "uuid", description = "The project.")),
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
    params(("id" = String, Path, format = "uuid", description = "The project."),
        ("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be changed.")),
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
/// The default holds again.
#[utoipa::path(delete, path = "/operator/projects/{id}/quota", operation_id = "operator_delete_quota",
    tag = "operator",
    params(("id" = String, Path, format = "uuid", description = "The project."),
        ("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be changed.")),
    responses((status = 204, description = "It has the default.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<StatusCode, ActionError> {
    action::operator::quotas::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

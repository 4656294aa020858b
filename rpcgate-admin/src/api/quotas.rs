//! Routes of the quotas of projects for members.

use super::etag::Tagged;
use axum::extract::State;
use rpcgate_core::caller::ProjectId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::shape::operator::quotas::QuotaJson;
use rpcgate_store::Versioned;
use std::sync::Arc;

/// Read the quota of a project
///
/// The quota that an operator granted, or the default from the tenant's contracts or plan.
#[utoipa::path(get, path = "/projects/{id}/quota", operation_id = "get_quota", tag = "projects",
    responses((status = 200, description = "The quota.", body = QuotaJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<Tagged<QuotaJson>, ActionError> {
    let version = current(&app, Versioned::Quota(id)).await?;
    Ok(Tagged::new(version, QuotaJson::of(id, &action::quotas::get(&app, &actor, id).await?)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use crate::testing::fixtures::error_body;
    use axum::body::Body;
    use http::Method;
    use rpcgate_core::caller::{ProjectId, ProjectQuota};
    use rpcgate_store::{Project, Role, fresh_id};
    use serde_json::json;

    #[tokio::test]
    async fn a_project_has_the_default_until_an_operator_grants_something() {
        let site = Site::new().await;
        let store = &site.app.store;
        let now = site.app.now();
        let viewer = site.member(Role::Viewer).await;
        let outsider = site.member(Role::Owner).await;
        let project = Project::new(ProjectId(fresh_id(now)), viewer.user.tenant.unwrap(), "One", now);
        store.create_project(&project).await.unwrap();
        let path = format!("/api/v1/projects/{}/quota", project.id);
        let get = async |visitor| {
            let answer = site.ask(Some(visitor), Method::GET, &path, Body::empty()).await;
            (answer.status.as_u16(), answer.body)
        };
        let quota = |day: u64, month: Option<u64>, rps: Option<u64>, has_row: bool| {
            json!({"project_id": project.id.to_string(), "cu_per_day": day, "cu_per_month": month,
                "rps_limit": rps, "has_quota_row": has_row})
        };
        assert_eq!(get(&viewer).await, (200, quota(100_000, None, None, false)));
        let granted =
            ProjectQuota { cu_per_day: 0, cu_per_month: Some(9), rps_limit: Some(3), has_row: true };
        store.put_quota(project.id, &granted, now).await.unwrap();
        assert_eq!(get(&viewer).await, (200, quota(0, Some(9), Some(3), true)));
        assert_eq!(get(&outsider).await, (404, error_body("not_found", "project not found")));
        store.delete_project(project.tenant, project.id, now).await.unwrap();
        assert_eq!(get(&viewer).await.0, 404);
    }
}

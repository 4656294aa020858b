//! Quotas of projects.

use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::Versioned;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};

async fn tenant_of(app: &AppState, project: ProjectId) -> Result<TenantId, ActionError> {
    app.store.tenant_of(project).await?.ok_or(ActionError::NotFound("project"))
}

/// The quota of a project.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, project: ProjectId) -> Result<ProjectQuota, ActionError> {
    let tenant = tenant_of(app, project).await?;
    app.store.quota(tenant, project, app.now()).await?.ok_or(ActionError::NotFound("project"))
}

/// Sets all limits of a project's quota. Gateways are notified.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn put(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    quota: ProjectQuota,
) -> Result<ProjectQuota, ActionError> {
    let (tenant, now) = (tenant_of(app, project).await?, app.now());
    let quota = ProjectQuota { has_row: true, ..quota };
    let text = |text: Option<u64>| text.map_or("none".to_owned(), |text| text.to_string());
    let (month, rps) = (text(quota.cu_per_month), text(quota.rps_limit));
    let details = format!("cu_per_day {}, cu_per_month {month}, rps_limit {rps}", quota.cu_per_day);
    let store = actor.audited_store(&app.store, Some(tenant), ("quota.set", project, details), now);
    actor.expecting(&store, Versioned::Quota(project)).put_quota(project, &quota, now).await?;
    Ok(quota)
}

/// Removes a project's quota, so that the default holds again.
///
/// # Errors
/// [`ActionError::NotFound`] for a project that does not exist or has no quota of its own.
pub async fn delete(app: &AppState, actor: &Actor, project: ProjectId) -> Result<(), ActionError> {
    let (tenant, now) = (tenant_of(app, project).await?, app.now());
    let store = actor.audited_store(&app.store, Some(tenant), ("quota.deleted", project, ""), now);
    Ok(actor.expecting(&store, Versioned::Quota(project)).delete_quota(project, now).await?)
}

//! Quotas of projects.

use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};

async fn tenant_of(app: &AppState, project: ProjectId) -> Result<TenantId, ActionError> {
    app.store.tenant_of(project).await?.ok_or(ActionError::NotFound("project"))
}

/// Sets a project's quota, all of it. Gateways hear of it.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for a figure that is too large to be kept.
pub async fn put(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    quota: ProjectQuota,
) -> Result<ProjectQuota, ActionError> {
    let (tenant, now) = (tenant_of(app, project).await?, app.now());
    let quota = ProjectQuota { has_row: true, ..quota };
    let figure = |figure: Option<u64>| figure.map_or("none".to_owned(), |figure| figure.to_string());
    let (month, rps) = (figure(quota.cu_per_month), figure(quota.rps_limit));
    let told = format!("cu_per_day {}, cu_per_month {month}, rps_limit {rps}", quota.cu_per_day);
    let noting = actor.noting(&app.store, Some(tenant), ("quota.set", project, told), now);
    noting.put_quota(project, &quota, now).await?;
    Ok(quota)
}

/// Takes a project's quota away: the default holds again.
///
/// # Errors
/// [`ActionError::NotFound`] for a project that does not exist or has no quota of its own.
pub async fn delete(app: &AppState, actor: &Actor, project: ProjectId) -> Result<(), ActionError> {
    let (tenant, now) = (tenant_of(app, project).await?, app.now());
    let noting = actor.noting(&app.store, Some(tenant), ("quota.deleted", project, ""), now);
    Ok(noting.delete_quota(project, now).await?)
}

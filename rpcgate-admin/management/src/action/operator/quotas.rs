//! Quotas of projects.

use crate::action::actor::Actor;
use crate::action::plans::in_force;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_config::QuotaChange;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::PlanQuota;
use rpcgate_store::Versioned;

async fn tenant_of(app: &AppState, project: ProjectId) -> Result<TenantId, ActionError> {
    app.store.tenant_of(project).await?.ok_or(ActionError::NotFound("project"))
}

async fn quota_of_plan(app: &AppState, tenant: TenantId, now: Time) -> Result<PlanQuota, ActionError> {
    let found = app.store.tenant(tenant).await?.ok_or(ActionError::NotFound("project"))?;
    let plan = in_force(app).await?.of_tenant(found.tier);
    Ok(app.store.terms(tenant, now).await?.plan(plan, now).quota)
}

/// Returns the quota of a project.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, project: ProjectId) -> Result<ProjectQuota, ActionError> {
    let tenant = tenant_of(app, project).await?;
    let plans = in_force(app).await?;
    app.store.quota(tenant, project, &plans, app.now()).await?.ok_or(ActionError::NotFound("project"))
}

/// Sets all limits of a project's quota. Limits that are not given are those of the tenant's plan. Gateways are
/// notified.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn put(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    limits: QuotaChange,
) -> Result<ProjectQuota, ActionError> {
    let QuotaChange { cu_per_day, cu_per_month, rps_limit } = limits;
    let plan = quota_of_plan(app, tenant_of(app, project).await?, app.now()).await?;
    let quota = ProjectQuota {
        cu_per_day: cu_per_day.unwrap_or(plan.cu_per_day),
        cu_per_month: cu_per_month.or(plan.cu_per_month),
        rps_limit: rps_limit.or(plan.rps_limit),
        has_row: true,
    };
    set(app, actor, project, quota).await
}

/// Sets a project's quota to exactly these limits; `None` removes a limit.
///
/// # Errors
/// [`ActionError::NotFound`].
pub(super) async fn set(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    quota: ProjectQuota,
) -> Result<ProjectQuota, ActionError> {
    let tenant = tenant_of(app, project).await?;
    let now = app.now();
    let text = |text: Option<u64>| text.map_or("none".to_owned(), |text| text.to_string());
    let month = text(quota.cu_per_month);
    let rps = text(quota.rps_limit);
    let details = format!("cu_per_day {}, cu_per_month {month}, rps_limit {rps}", quota.cu_per_day);
    let store = actor.audited_store(&app.store, Some(tenant), ("quota.set", project, details), now);
    actor.expecting(&store, Versioned::Quota(project)).put_quota(project, &quota, now).await?;
    Ok(quota)
}

/// Removes a project's quota, so that the default applies again.
///
/// # Errors
/// [`ActionError::NotFound`] for a project that does not exist or has no quota of its own.
pub async fn delete(app: &AppState, actor: &Actor, project: ProjectId) -> Result<(), ActionError> {
    let tenant = tenant_of(app, project).await?;
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("quota.deleted", project, ""), now);
    Ok(actor.expecting(&store, Versioned::Quota(project)).delete_quota(project, now).await?)
}

//! Projects of the caller's tenant.

use super::actor::Actor;
use super::tenants::own_tenant;
use super::text;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_store::{Project, ProjectChange, Versioned, fresh_id};

const UNKNOWN: ActionError = ActionError::NotFound("project");

/// Creates a project.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Invalid`] for an invalid name, [`ActionError::Full`] if
/// the plan allows no more.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    name: &str,
) -> Result<Project, ActionError> {
    let tenant = own_tenant(actor, tenant)?;
    let now = app.now();
    let project = Project::new(ProjectId(fresh_id(now)), tenant, text::name("name", name)?, now);
    let event = ("project.created", project.id, &project.name);
    actor.audited_store(&app.store, Some(tenant), event, now).create_project(&project).await?;
    Ok(project)
}

/// Lists the tenant's projects, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant.
pub async fn list(app: &AppState, actor: &Actor, tenant: TenantId) -> Result<Vec<Project>, ActionError> {
    Ok(app.store.projects(own_tenant(actor, tenant)?).await?)
}

/// Returns a project of the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, actor: &Actor, id: ProjectId) -> Result<Project, ActionError> {
    app.store.project(actor.tenant()?, id).await?.ok_or(UNKNOWN)
}

/// Applies `change` and returns the changed project. Gateways are notified of changed method lists.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for an invalid name or list.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: ProjectId,
    change: ProjectChange,
) -> Result<Project, ActionError> {
    let ProjectChange { name, allowed_methods, blocked_methods } = change;
    let change = ProjectChange {
        name: name.map(|name| text::name("name", &name)).transpose()?,
        allowed_methods: allowed_methods.map(|names| text::methods("allowed_methods", names)).transpose()?,
        blocked_methods: blocked_methods.map(|names| text::methods("blocked_methods", names)).transpose()?,
    };
    if change == ProjectChange::default() {
        actor.check_version(&app.store, &Versioned::Project(actor.tenant()?, id)).await?;
        return get(app, actor, id).await;
    }
    let tenant = actor.tenant()?;
    let now = app.now();
    let changed = [
        ("name", change.name.is_some()),
        ("allowed_methods", change.allowed_methods.is_some()),
        ("blocked_methods", change.blocked_methods.is_some()),
    ];
    let changed: Vec<_> = changed.into_iter().filter(|(_, given)| *given).map(|(field, _)| field).collect();
    let store =
        actor.audited_store(&app.store, Some(tenant), ("project.changed", id, changed.join(", ")), now);
    let store = actor.expecting(&store, Versioned::Project(tenant, id));
    Ok(store.update_project(tenant, id, &change, now).await?)
}

/// Deletes a project and revokes its keys. Its usage stays.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn delete(app: &AppState, actor: &Actor, id: ProjectId) -> Result<(), ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("project.deleted", id, ""), now);
    let store = actor.expecting(&store, Versioned::Project(tenant, id));
    Ok(store.delete_project(tenant, id, now).await?)
}

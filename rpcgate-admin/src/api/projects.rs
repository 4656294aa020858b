//! Routes of projects.

use super::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::projects::{NewProject, ProjectChangeJson, ProjectJson};
use rpcgate_store::Versioned;
use std::sync::Arc;

/// Create a project
///
/// The plan limits the number of projects of a tenant; deleted ones do not count.
#[utoipa::path(post, path = "/tenants/{tenant_id}/projects", operation_id = "create_project", tag = "projects",
    request_body = NewProject,
    responses((status = 201, description = "The project.", body = ProjectJson),
        (status = 409, description = "The tenant has as many projects as its plan allows.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(tenant): Id<TenantId>,
    Body(new): Body<NewProject>,
) -> Result<(StatusCode, Json<ProjectJson>), ActionError> {
    let project = action::projects::create(&app, &actor, tenant, &new.name).await?;
    Ok((StatusCode::CREATED, Json(project.into())))
}

/// List the projects of a tenant
///
/// Oldest first.
#[utoipa::path(get, path = "/tenants/{tenant_id}/projects", operation_id = "list_projects", tag = "projects",
    params(Page),
    responses((status = 200, description = "All projects.", body = [ProjectJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(tenant): Id<TenantId>,
) -> Result<ListPage<ProjectJson>, ActionError> {
    let projects = action::projects::list(&app, &actor, tenant).await?;
    page.of(projects.into_iter().map(ProjectJson::from).collect(), false, |one| &one.id)
}

/// Read a project
#[utoipa::path(get, path = "/projects/{id}", operation_id = "get_project", tag = "projects",
    responses((status = 200, description = "The project.", body = ProjectJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<Tagged<ProjectJson>, ActionError> {
    let version = current(&app, Versioned::Project(actor.tenant()?, id)).await?;
    Ok(Tagged::new(version, action::projects::get(&app, &actor, id).await?.into()))
}

/// Change a project
///
/// Changes its name and its method lists. Gateways apply new lists within a second.
#[utoipa::path(put, path = "/projects/{id}", operation_id = "update_project", tag = "projects",
    params(IfMatchHeader),
    request_body = ProjectChangeJson,
    responses((status = 200, description = "The project as it is now.", body = ProjectJson)))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
    Body(change): Body<ProjectChangeJson>,
) -> Result<Json<ProjectJson>, ActionError> {
    let ProjectChangeJson { name, allowed_methods, blocked_methods } = change;
    let change = rpcgate_store::ProjectChange { name, allowed_methods, blocked_methods };
    Ok(Json(action::projects::update(&app, &actor, id, change).await?.into()))
}

/// Delete a project
///
/// Revokes its keys. Its usage is kept.
#[utoipa::path(delete, path = "/projects/{id}", operation_id = "delete_project", tag = "projects",
    params(IfMatchHeader),
    responses((status = 204, description = "Deleted.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<StatusCode, ActionError> {
    action::projects::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

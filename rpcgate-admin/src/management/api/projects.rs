//! Projects.

use super::etag::Tagged;
use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::versions::current;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Id};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_store::Versioned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A project, the unit of metering: it has API keys, a quota and method lists.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Project)]
pub struct ProjectJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The tenant it belongs to.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// Its name.
    pub name: String,
    /// If not empty, only these methods are allowed.
    pub allowed_methods: Vec<String>,
    /// These methods are never allowed.
    pub blocked_methods: Vec<String>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::Project> for ProjectJson {
    fn from(project: rpcgate_store::Project) -> Self {
        ProjectJson {
            id: project.id.to_string(),
            tenant_id: project.tenant.to_string(),
            name: project.name,
            allowed_methods: project.allowed_methods,
            blocked_methods: project.blocked_methods,
            created_at: project.created_at.into(),
        }
    }
}

/// A new project.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
}

/// A change to a project. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProjectChange)]
pub struct ProjectChangeJson {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The only methods that are allowed, at most 200; an empty list allows all.
    #[schema(max_items = 200)]
    pub allowed_methods: Option<Vec<String>>,
    /// The methods that are never allowed, at most 200.
    #[schema(max_items = 200)]
    pub blocked_methods: Option<Vec<String>>,
}

/// Create a project
///
/// The plan limits the number of projects of a tenant; deleted ones do not count.
#[utoipa::path(post, path = "/tenants/{tenant_id}/projects", operation_id = "create_project", tag = "projects",
    params(("tenant_id" = String, Path, format = "uuid", description = "The caller's tenant.")),
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
/// The oldest first.
#[utoipa::path(get, path = "/tenants/{tenant_id}/projects", operation_id = "list_projects", tag = "projects",
    params(Page, ("tenant_id" = String, Path, format = "uuid", description = "The caller's tenant.")),
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
    params(("id" = String, Path, format = "uuid", description = "The project.")),
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
/// Its name and its method lists. Gateways apply new lists within a second.
#[utoipa::path(put, path = "/projects/{id}", operation_id = "update_project", tag = "projects",
    params(("id" = String, Path, format = "uuid", description = "The project."),
        ("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be changed.")),
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
/// Revokes its keys. Its usage stays.
#[utoipa::path(delete, path = "/projects/{id}", operation_id = "delete_project", tag = "projects",
    params(("id" = String, Path, format = "uuid", description = "The project."),
        ("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be changed.")),
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

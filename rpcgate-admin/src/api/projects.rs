//! Projects.

use super::list::{Page, Part, Told};
use super::moment::Moment;
use crate::action;
use crate::action::actor::Actor;
use crate::error::ActionError;
use crate::extract::{Body, Id};
use crate::house::House;
use crate::store;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::{ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What is metered: it has API keys, a quota and method lists.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Project {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The tenant it belongs to.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// Its name.
    pub name: String,
    /// When not empty, only these methods pass.
    pub allowed_methods: Vec<String>,
    /// These methods never pass.
    pub blocked_methods: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<store::Project> for Project {
    fn from(project: store::Project) -> Self {
        Project {
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

/// What changes about a project. What is left out stays.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectChange {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The only methods that pass, at most 200; an empty list lets all pass.
    #[schema(max_items = 200)]
    pub allowed_methods: Option<Vec<String>>,
    /// Methods that never pass, at most 200.
    #[schema(max_items = 200)]
    pub blocked_methods: Option<Vec<String>>,
}

/// Create a project
///
/// The plan says how many a tenant may have; deleted ones do not count.
#[utoipa::path(post, path = "/tenants/{tenant_id}/projects", operation_id = "create_project", tag = "projects",
    params(("tenant_id" = String, Path, format = "uuid", description = "The caller's tenant.")),
    request_body = NewProject,
    responses((status = 201, description = "The project.", body = Project),
        (status = 409, description = "The tenant has as many projects as its plan allows.")))]
pub async fn create(
    State(house): State<Arc<House>>,
    actor: Actor,
    Id(tenant): Id<TenantId>,
    Body(new): Body<NewProject>,
) -> Result<(StatusCode, Json<Project>), ActionError> {
    let project = action::projects::create(&house, &actor, tenant, &new.name).await?;
    Ok((StatusCode::CREATED, Json(project.into())))
}

/// List the projects of a tenant
///
/// The oldest first.
#[utoipa::path(get, path = "/tenants/{tenant_id}/projects", operation_id = "list_projects", tag = "projects",
    params(Page, ("tenant_id" = String, Path, format = "uuid", description = "The caller's tenant.")),
    responses((status = 200, description = "All projects.", body = [Project])))]
pub async fn list(
    State(house): State<Arc<House>>,
    part: Part,
    actor: Actor,
    Id(tenant): Id<TenantId>,
) -> Result<Told<Project>, ActionError> {
    let projects = action::projects::list(&house, &actor, tenant).await?;
    part.of(projects.into_iter().map(Project::from).collect(), false, |one| &one.id)
}

/// Read a project
#[utoipa::path(get, path = "/projects/{id}", operation_id = "get_project", tag = "projects",
    params(("id" = String, Path, format = "uuid", description = "The project.")),
    responses((status = 200, description = "The project.", body = Project)))]
pub async fn get(
    State(house): State<Arc<House>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<Json<Project>, ActionError> {
    Ok(Json(action::projects::get(&house, &actor, id).await?.into()))
}

/// Change a project
///
/// Its name and its method lists. Gateways go by new lists within a second.
#[utoipa::path(put, path = "/projects/{id}", operation_id = "update_project", tag = "projects",
    params(("id" = String, Path, format = "uuid", description = "The project.")),
    request_body = ProjectChange,
    responses((status = 200, description = "The project as it is now.", body = Project)))]
pub async fn update(
    State(house): State<Arc<House>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
    Body(change): Body<ProjectChange>,
) -> Result<Json<Project>, ActionError> {
    let ProjectChange { name, allowed_methods, blocked_methods } = change;
    let change = store::ProjectChange { name, allowed_methods, blocked_methods };
    Ok(Json(action::projects::update(&house, &actor, id, change).await?.into()))
}

/// Delete a project
///
/// Its keys are revoked. Its usage stays.
#[utoipa::path(delete, path = "/projects/{id}", operation_id = "delete_project", tag = "projects",
    params(("id" = String, Path, format = "uuid", description = "The project.")),
    responses((status = 204, description = "It is gone.")))]
pub async fn delete(
    State(house): State<Arc<House>>,
    actor: Actor,
    Id(id): Id<ProjectId>,
) -> Result<StatusCode, ActionError> {
    action::projects::delete(&house, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

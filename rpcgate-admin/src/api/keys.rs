//! Routes of API keys.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::keys::{CreatedKey, KeyJson, NewKeyJson};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use std::sync::Arc;

/// Create an API key
///
/// Only this response contains the key. The caller's e-mail address must be confirmed. The plan limits the number of
/// usable keys of a project; revoked and expired keys do not count.
#[utoipa::path(post, path = "/projects/{project_id}/keys", operation_id = "create_key", tag = "keys",
    request_body = NewKeyJson,
    responses((status = 201, description = "The key.", body = CreatedKey),
        (status = 403, description = "The role does not permit this, or the e-mail address is not confirmed."),
        (status = 409, description = "The project has the maximum number of usable keys that the plan allows.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(project): Id<ProjectId>,
    Body(new): Body<NewKeyJson>,
) -> Result<(StatusCode, Json<CreatedKey>), ActionError> {
    let (kept, key) = action::keys::create(&app, &actor, project, new.into()).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { key, kept: kept.into() })))
}

/// List the API keys of a project
///
/// Oldest first. Revoked and expired keys are included for 90 days, at most the newest 1,000 of them.
#[utoipa::path(get, path = "/projects/{project_id}/keys", operation_id = "list_keys", tag = "keys",
    params(Page),
    responses((status = 200, description = "All keys.", body = [KeyJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(project): Id<ProjectId>,
) -> Result<ListPage<KeyJson>, ActionError> {
    let keys = action::keys::list(&app, &actor, project).await?;
    page.of(keys.into_iter().map(KeyJson::from).collect(), false, |one| &one.id)
}

/// Revoke an API key
///
/// Permanent: gateways refuse the key within a second. It stays in the list for 90 days.
#[utoipa::path(delete, path = "/keys/{id}", operation_id = "revoke_key", tag = "keys",
    responses((status = 204, description = "It is revoked.")))]
pub async fn revoke(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<KeyId>,
) -> Result<StatusCode, ActionError> {
    action::keys::revoke(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

//! API keys.

use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Id};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::{KeyId, ProjectId, Scope};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// An API key, without its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyJson {
    /// Its identifier, by which usage can be filtered.
    #[schema(format = "uuid")]
    pub id: String,
    /// The project on which its calls are metered.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// Its description.
    pub description: String,
    /// Its first 12 characters.
    #[schema(example = "rpcg_0Ab1Cd2")]
    pub prefix: String,
    /// The chains it may use, by their canonical names; null for all.
    pub chains: Option<Vec<String>>,
    /// When it expires, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Moment>,
    /// When it was revoked, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Moment>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::Key> for KeyJson {
    fn from(key: rpcgate_store::Key) -> Self {
        KeyJson {
            id: key.id.to_string(),
            project_id: key.project.to_string(),
            description: key.description,
            prefix: key.prefix,
            chains: match key.scope {
                Scope::All => None,
                Scope::Only(chains) => Some(chains.into_iter().map(String::from).collect()),
            },
            expires_at: key.expires_at.map(Moment),
            revoked_at: key.revoked_at.map(Moment),
            created_at: key.created_at.into(),
        }
    }
}

/// The properties of a new key.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key itself. It is shown only this once.
    pub key: String,
    /// The stored key.
    #[serde(flatten)]
    pub kept: KeyJson,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(f)
    }
}

/// The properties of a new key.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub struct NewKeyJson {
    /// Its description, at most 200 characters.
    #[schema(max_length = 200)]
    pub description: String,
    /// The chains it may use, by name or alias; all by default.
    #[schema(example = json!(["eth", "bitcoin"]))]
    pub chains: Option<Vec<String>>,
    /// When it expires; never by default.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Moment>,
}

/// Create an API key
///
/// Only this response contains the key. The caller's e-mail address must be confirmed. The plan limits the number of
/// usable keys of a project; revoked and expired keys do not count.
#[utoipa::path(post, path = "/projects/{project_id}/keys", operation_id = "create_key", tag = "keys",
    params(("project_id" = String, Path, format = "uuid", description = "The project.")),
    request_body = NewKeyJson,
    responses((status = 201, description = "The key.", body = CreatedKey),
        (status = 403, description = "The role does not permit this, or the e-mail address is not confirmed."),
        (status = 409, description = "The project has as many keys that can be used as the plan allows.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(project): Id<ProjectId>,
    Body(new): Body<NewKeyJson>,
) -> Result<(StatusCode, Json<CreatedKey>), ActionError> {
    let NewKeyJson { description, chains, expires_at } = new;
    let new = action::keys::NewKey { description, chains, expires_at: expires_at.map(|Moment(time)| time) };
    let (kept, key) = action::keys::create(&app, &actor, project, new).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { key, kept: kept.into() })))
}

/// List the API keys of a project
///
/// The oldest first, including revoked and expired keys for 90 days, at most the newest 1,000 of them.
#[utoipa::path(get, path = "/projects/{project_id}/keys", operation_id = "list_keys", tag = "keys",
    params(Page, ("project_id" = String, Path, format = "uuid", description = "The project.")),
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
/// For good: gateways refuse it within a second. It stays in the list for 90 days.
#[utoipa::path(delete, path = "/keys/{id}", operation_id = "revoke_key", tag = "keys",
    params(("id" = String, Path, format = "uuid", description = "The key's identifier.")),
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

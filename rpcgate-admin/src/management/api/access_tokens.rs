//! Personal access tokens.

use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use crate::management::access::AuthSession;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::step_up::{self, GivenProof};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Client, Id};
use crate::management::identity::password::Typed;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_store::{AccessToken, AccessTokenId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// A personal access token, without its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AccessToken)]
pub struct AccessTokenJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    #[schema(example = json!(["read", "manage_keys"]))]
    pub scopes: Vec<String>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it expires. It stays in the list for 30 days after that.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Moment,
    /// When it was last used, to the minute, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Moment>,
    /// The client's address at the last use, or null.
    #[schema(example = "192.0.2.1")]
    pub last_used_from: Option<String>,
}

impl From<AccessToken> for AccessTokenJson {
    fn from(token: AccessToken) -> Self {
        let (at, from) = token.used.unzip();
        AccessTokenJson {
            id: token.id.to_string(),
            name: token.name,
            scopes: token.scopes,
            created_at: token.created_at.into(),
            expires_at: token.expires_at.into(),
            last_used_at: at.map(Moment),
            last_used_from: from,
        }
    }
}

/// A new token with its text.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedAccessToken {
    /// The token itself, for `Authorization: Bearer`. It is shown only this once.
    pub token: String,
    /// The stored token.
    #[serde(flatten)]
    pub kept: AccessTokenJson,
}

impl fmt::Debug for CreatedAccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(f)
    }
}

/// The properties of a new token.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAccessToken)]
pub struct NewAccessTokenJson {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// What it may do: some of the caller's own permissions, which `GET /roles` lists by role, or `operator_read` and
    /// `operator_write` for operators.
    #[schema(min_items = 1, example = json!(["read", "manage_keys"]))]
    pub scopes: Vec<String>,
    /// When it expires, at most 366 days ahead; after 90 days by default.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Moment>,
    /// The password of the account, unless the session has a proof from the last ten minutes.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
}

/// Create a personal access token
///
/// For programs that act as the caller, with a part of what the caller may do. Only this response contains the token.
/// It works where an access token of a session works, except for the account itself: passwords, sessions, second
/// factors and other tokens need a log-in. A user can have 50. It needs a proof: `current_password`, or one that the session
/// has from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(post, path = "/auth/tokens", operation_id = "create_access_token", tag = "account",
    request_body = NewAccessTokenJson,
    responses((status = 201, description = "The token.", body = CreatedAccessToken),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The e-mail address is not confirmed."),
        (status = 409, description = "The user has as many tokens as are allowed.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    actor: Actor,
    Body(new): Body<NewAccessTokenJson>,
) -> Result<(StatusCode, Json<CreatedAccessToken>), ActionError> {
    let NewAccessTokenJson { name, scopes, expires_at, current_password } = new;
    let proof = current_password.map(GivenProof::Password);
    step_up::require(&app, &session, proof, &client).await?;
    let expires_at = expires_at.map(|Moment(time)| time);
    let new = action::access_tokens::NewAccessToken { name, scopes, expires_at };
    let (kept, text) = action::access_tokens::create(&app, &actor, new).await?;
    let token = text.expose().to_owned();
    Ok((StatusCode::CREATED, Json(CreatedAccessToken { token, kept: kept.into() })))
}

/// List the personal access tokens of the caller
///
/// The oldest first.
#[utoipa::path(get, path = "/auth/tokens", operation_id = "list_access_tokens", tag = "account",
    params(Page),
    responses((status = 200, description = "The caller's tokens.", body = [AccessTokenJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
) -> Result<ListPage<AccessTokenJson>, ActionError> {
    let tokens = action::access_tokens::list(&app, &actor).await?;
    page.of(tokens.into_iter().map(AccessTokenJson::from).collect(), false, |one| &one.id)
}

/// Revoke a personal access token
///
/// It is refused from the next request on. The session needs a proof from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(delete, path = "/auth/tokens/{id}", operation_id = "revoke_access_token", tag = "account",
    params(("id" = String, Path, format = "uuid", description = "The token's identifier.")),
    responses((status = 204, description = "It is revoked."),
        (status = 401, description = "The session has no recent proof (`proof_required`).")))]
pub async fn revoke(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    actor: Actor,
    Id(id): Id<AccessTokenId>,
) -> Result<StatusCode, ActionError> {
    step_up::require(&app, &session, None, &client).await?;
    action::access_tokens::revoke(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

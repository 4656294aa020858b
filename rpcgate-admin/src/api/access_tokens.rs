//! Routes of personal access tokens.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::step_up::{self, GivenProof};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id};
use rpcgate_management::shape::access_tokens::{AccessTokenJson, CreatedAccessToken, NewAccessTokenJson};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::AccessTokenId;
use std::sync::Arc;

/// Create a personal access token
///
/// For programs that act as the caller, with some of the caller's permissions. Only this response contains the token.
/// It works like the access token of a session, except for the account itself: passwords, sessions, second factors and
/// other tokens need a log-in. A user can have 50 tokens. Needs a proof: `current_password`, or a proof of the session
/// from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(post, path = "/auth/tokens", operation_id = "create_access_token", tag = "account",
    request_body = NewAccessTokenJson,
    responses((status = 201, description = "The token.", body = CreatedAccessToken),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The e-mail address is not confirmed."),
        (status = 409, description = "The user has the maximum number of tokens.")))]
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
/// Oldest first.
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
/// The next request with it is refused. The session needs a proof from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(delete, path = "/auth/tokens/{id}", operation_id = "revoke_access_token", tag = "account",
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

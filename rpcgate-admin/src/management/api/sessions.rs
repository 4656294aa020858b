//! Logging in and out, and staying logged in.

use super::list::{ListPage, Page, Part};
use super::moment::Moment;
use crate::management::access;
use crate::management::action::sessions::{self, Opened};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Client, Id, whole};
use crate::management::identity::password::Typed;
use crate::management::strict_json;
use crate::store::{self, SessionId};
use axum::Json;
use axum::extract::{Request, State};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// What somebody logs in with.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The address.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The password.
    #[schema(value_type = String, format = Password)]
    pub password: Typed,
}

/// What stands for somebody who is logged in.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = Tokens)]
pub struct LoggedIn {
    /// The access token, for `Authorization: Bearer`.
    pub token: String,
    /// Good for one new pair of tokens.
    pub refresh_token: String,
    /// Seconds that the access token is good.
    #[schema(example = 900)]
    pub expires_in: u64,
}

impl fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedIn").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

impl From<Opened> for LoggedIn {
    fn from(Opened { token, ttl, refresh_token, .. }: Opened) -> Self {
        LoggedIn {
            token: token.expose().to_owned(),
            refresh_token: refresh_token.expose().to_owned(),
            expires_in: ttl.as_secs(),
        }
    }
}

/// What renews a session.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// The refresh token that was given out last.
    pub refresh_token: String,
}

impl fmt::Debug for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refresh")
    }
}

/// Somewhere that somebody is logged in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AuthSession)]
pub struct SessionJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// When somebody logged in.
    #[schema(value_type = String, format = "date-time")]
    pub created_at: Moment,
    /// When it was renewed last.
    #[schema(value_type = String, format = "date-time")]
    pub seen_at: Moment,
    /// When it ends, unless it is renewed before.
    #[schema(value_type = String, format = "date-time")]
    pub expires_at: Moment,
    /// The address it was opened from.
    #[schema(example = "192.0.2.1")]
    pub address: String,
    /// What the client called itself.
    #[schema(example = "curl/8.5.0")]
    pub agent: String,
    /// Whether it is the one that asks.
    pub current: bool,
}

impl SessionJson {
    fn seen_from(asking: &access::AuthSession, session: store::Session) -> Self {
        SessionJson {
            id: session.id.to_string(),
            created_at: session.created_at.into(),
            seen_at: session.seen_at.into(),
            expires_at: session.expires_at.into(),
            address: session.address,
            agent: session.agent,
            current: session.id == asking.id,
        }
    }
}

/// Log in
///
/// A wrong address or password is answered with 401. Five wrong passwords in 15 minutes lock an address for 15 minutes, whether somebody has it or not.
#[utoipa::path(post, path = "/auth/login", operation_id = "login", tag = "account", request_body = Login,
    responses(
        (status = 200, description = "Logged in.", body = LoggedIn),
        (status = 401, description = "The address or the password is wrong."),
        (status = 403, description = "The account is temporarily locked, or operators have disabled it.")))]
pub async fn login(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Login { email, password }): Body<Login>,
) -> Result<Json<LoggedIn>, ActionError> {
    Ok(Json(sessions::login(&app, &email, password, &client).await?.into()))
}

/// Renew a session
///
/// A refresh token is good once. One that is used again ends its session: somebody has a copy. Whatever is wrong with
/// one is answered with 401.
#[utoipa::path(post, path = "/auth/refresh", operation_id = "refresh", tag = "account", request_body = Refresh,
    responses(
        (status = 200, description = "New tokens.", body = LoggedIn),
        (status = 401, description = "The refresh token is not valid, was used, or has expired.")))]
pub async fn refresh(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Refresh { refresh_token }): Body<Refresh>,
) -> Result<Json<LoggedIn>, ActionError> {
    Ok(Json(sessions::refresh(&app, &refresh_token, &client).await?.into()))
}

/// Log out
///
/// Ends a session at once: that of the refresh token in the body, for which no other token is needed, or without a body
/// that of the bearer token.
#[utoipa::path(post, path = "/auth/logout", operation_id = "logout", tag = "account",
    request_body(content = Refresh, description = "Without a body the bearer token says which session."),
    responses(
        (status = 204, description = "Logged out."),
        (status = 401, description = "There is no refresh token and no valid bearer token.")))]
pub async fn logout(
    State(app): State<Arc<AppState>>,
    client: Client,
    request: Request,
) -> Result<StatusCode, ActionError> {
    let headers = request.headers().clone();
    let body = whole(request, &()).await?;
    if body.is_empty() {
        let session = access::session(&app, &headers).await?;
        sessions::logout(&app, &session, &client).await?;
    } else {
        let Refresh { refresh_token } = strict_json::of_object(&body).map_err(ActionError::Invalid)?;
        sessions::logout_by_refresh(&app, &refresh_token, &client).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Log out everywhere
///
/// Ends all sessions of the caller at once, this one too.
#[utoipa::path(post, path = "/auth/logout-all", operation_id = "logout_all", tag = "account",
    responses((status = 204, description = "Logged out everywhere.")))]
pub async fn logout_all(
    State(app): State<Arc<AppState>>,
    session: access::AuthSession,
    client: Client,
) -> Result<StatusCode, ActionError> {
    sessions::logout_all(&app, &session, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the sessions
///
/// Where the caller is logged in, the newest first.
#[utoipa::path(get, path = "/auth/sessions", operation_id = "list_sessions", tag = "account",
    params(Page),
    responses((status = 200, description = "All sessions that have not ended.", body = [SessionJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    part: Part,
    session: access::AuthSession,
) -> Result<ListPage<SessionJson>, ActionError> {
    let all = sessions::list(&app, &session).await?;
    part.of(all.into_iter().map(|one| SessionJson::seen_from(&session, one)).collect(), true, |one| &one.id)
}

/// End a session
///
/// One of the caller's, at once.
#[utoipa::path(delete, path = "/auth/sessions/{id}", operation_id = "end_session", tag = "account",
    params(("id" = String, Path, format = "uuid", description = "The session.")),
    responses((status = 204, description = "It has ended.")))]
pub async fn end(
    State(app): State<Arc<AppState>>,
    session: access::AuthSession,
    client: Client,
    Id(id): Id<SessionId>,
) -> Result<StatusCode, ActionError> {
    sessions::end(&app, &session, id, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

//! Routes of log-ins, log-outs, token refreshes and sessions.

use crate::route_guard;
use axum::Json;
use axum::extract::{Request, State};
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::sessions::{self};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id, read_body};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::sessions::{LogInAnswer, LoggedIn, Login, Refresh, SessionJson};
use rpcgate_management::strict_json;
use rpcgate_store::SessionId;
use std::sync::Arc;

/// Log in
///
/// A wrong address or password is answered with 401. Five wrong passwords in 15 minutes lock an address for 15 minutes,
/// even if it has no account. If the user has a second factor, the response to the right password has `mfa_required`
/// and a token, with which a factor completes the log-in.
#[utoipa::path(post, path = "/auth/login", operation_id = "login", tag = "account", request_body = Login,
    responses(
        (status = 200, description = "Logged in, or a second factor is needed.", body = LogInAnswer),
        (status = 401, description = "The address or the password is wrong."),
        (status = 403, description = "The account is temporarily locked, or operators have disabled it.")))]
pub async fn login(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Login { email, password }): Body<Login>,
) -> Result<Json<LogInAnswer>, ActionError> {
    Ok(Json(sessions::login(&app, &email, password, &client).await?.into()))
}

/// Renew a session
///
/// A refresh token can be used once. A second use of a token ends its session, because it shows that the token was
/// copied. Every invalid token is answered with 401.
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
/// Ends a session at once. The refresh token in the body identifies it and needs no other token. Without a body, the
/// bearer token identifies it.
#[utoipa::path(post, path = "/auth/logout", operation_id = "logout", tag = "account",
    request_body(content = Refresh, description = "Without a body, the bearer token identifies the session."),
    responses(
        (status = 204, description = "Logged out."),
        (status = 401, description = "There is no refresh token and no valid bearer token.")))]
pub async fn logout(
    State(app): State<Arc<AppState>>,
    client: Client,
    request: Request,
) -> Result<StatusCode, ActionError> {
    let headers = request.headers().clone();
    let body = read_body(request, &()).await?;
    if body.is_empty() {
        let session = route_guard::session(&app, &headers).await?;
        sessions::logout(&app, &session, &client).await?;
    } else {
        let Refresh { refresh_token } = strict_json::of_object(&body)?;
        sessions::logout_by_refresh(&app, &refresh_token, &client).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Log out everywhere
///
/// Ends all sessions of the caller at once, including this one.
#[utoipa::path(post, path = "/auth/logout-all", operation_id = "logout_all", tag = "account",
    responses((status = 204, description = "Logged out everywhere.")))]
pub async fn logout_all(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
) -> Result<StatusCode, ActionError> {
    sessions::logout_all(&app, &session, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the sessions
///
/// The caller's sessions, newest first.
#[utoipa::path(get, path = "/auth/sessions", operation_id = "list_sessions", tag = "account",
    params(Page),
    responses((status = 200, description = "All sessions that have not ended.", body = [SessionJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    session: AuthSession,
) -> Result<ListPage<SessionJson>, ActionError> {
    let all = sessions::list(&app, &session).await?;
    page.of(all.into_iter().map(|one| SessionJson::of(&session, one)).collect(), true, |one| &one.id)
}

/// End a session
///
/// Ends one of the caller's sessions at once.
#[utoipa::path(delete, path = "/auth/sessions/{id}", operation_id = "end_session", tag = "account",
    responses((status = 204, description = "It has ended.")))]
pub async fn end(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Id(id): Id<SessionId>,
) -> Result<StatusCode, ActionError> {
    sessions::end(&app, &session, id, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

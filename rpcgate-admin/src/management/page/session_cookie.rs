//! The session cookie, by which a browser stays logged in.
//!
//! The cookie holds a page token and nothing else, and every page issues a fresh one. A page token is not accepted by
//! the API, and an access token is not accepted by pages, so that a stolen one is limited to one of them. A refresh
//! token would last longer but can be used only once: two tabs that used it at the same moment would look like a
//! thief and the owner, and the session would end. So a log-in of the pages ends when no page was opened for the
//! lifetime of a token, and at the latest when the session itself expires. A valid token is not sufficient: the
//! session is looked up for each page, so an ended session is over at once.

use super::view;
use crate::management::access::{AuthSession, session_of};
use crate::management::action::sessions::SessionTokens;
use crate::management::app_state::{AppState, Settings};
use crate::management::error::{ActionError, ErrorCode};
use crate::management::extract::Client;
use crate::management::identity::token::Claims;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use http::request::Parts;
use std::sync::Arc;
use std::time::Duration;

/// The pages for users who lack a second factor that is required, and those that need no session.
const OPEN_WITHOUT_FACTOR: [&str; 11] = [
    "/totp",
    "/totp-activate",
    "/logout",
    "/confirm",
    "/confirm-again",
    "/login",
    "/second-factor",
    "/register",
    "/forgot",
    "/reset",
    "/invitation",
];

/// The session of a logged-in user. Other visitors are redirected to the log-in.
pub(crate) struct Visitor(pub(super) AuthSession);

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Redirect;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Redirect> {
        parts.extensions.get().cloned().map(Visitor).ok_or_else(|| Redirect::to(view::LOGIN))
    }
}

/// Whether the visitor is logged in.
pub(crate) struct IsLoggedIn(pub(super) bool);

impl<S: Send + Sync> FromRequestParts<S> for IsLoggedIn {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(IsLoggedIn(parts.extensions.get::<AuthSession>().is_some()))
    }
}

/// The session of the visitor, if there is one.
pub(crate) struct CurrentSession(pub(super) Option<AuthSession>);

impl<S: Send + Sync> FromRequestParts<S> for CurrentSession {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(CurrentSession(parts.extensions.get::<AuthSession>().cloned()))
    }
}

/// Looks up the session of the request and renews its cookie.
pub(super) async fn authenticate(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let authenticated = match received(request.headers(), &app.settings) {
        Some(token) => match session_of(&app, &app.page_tokens, token).await {
            Ok(authenticated) => Some(authenticated),
            Err(ActionError::Unauthenticated(_)) => None,
            Err(error) => return view::refusal(error),
        },
        None => None,
    };
    let Some((claims, session)) = authenticated else { return next.run(request).await };
    if !OPEN_WITHOUT_FACTOR.contains(&request.uri().path()) {
        match session.demand_factor(&app, request.method()).await {
            Ok(()) => {}
            Err(ActionError::Refused(ErrorCode::FactorRequired, _)) => {
                return Redirect::to(view::ADD_FACTOR).into_response();
            }
            Err(error) => return view::refusal(error),
        }
    }
    let (mut parts, body) = request.into_parts();
    match Client::from_request_parts(&mut parts, &app).await {
        Ok(client) => session.note_use(&app, &client).await,
        Err(error) => return view::refusal(error),
    }
    parts.extensions.insert(session);
    let request = Request::from_parts(parts, body);
    let mut answer = next.run(request).await;
    // A log-in or log-out sets the cookie itself.
    if !answer.headers().contains_key(SET_COOKIE) {
        match issued(&app, &claims) {
            Ok(cookie) => drop(answer.headers_mut().insert(SET_COOKIE, cookie)),
            Err(error) => tracing::warn!(%error, "the session cookie of a page could not be renewed"),
        }
    }
    answer
}

/// The `Set-Cookie` value that keeps a user logged in.
///
/// # Errors
/// [`ActionError::Broken`] if no token can be issued, or none that fits a cookie.
pub(super) fn issued(app: &AppState, claims: &Claims) -> Result<HeaderValue, ActionError> {
    let token = app.page_tokens.issue(claims, app.now())?;
    cookie(&app.settings, &token, app.page_tokens.ttl())
}

fn cookie(settings: &Settings, token: &str, life: Duration) -> Result<HeaderValue, ActionError> {
    let (name, secure) = name(settings);
    let life = life.as_secs();
    let cookie = format!("{name}={token}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).map_err(|_| ActionError::Broken("a token does not fit a cookie".into()))
}

/// The `Set-Cookie` value that removes the cookie.
///
/// # Errors
/// Those of [`issued`].
pub(super) fn removed(settings: &Settings) -> Result<HeaderValue, ActionError> {
    cookie(settings, "", Duration::ZERO)
}

/// The cookie's name, and the attribute at its end. A browser accepts a name with `__Host-` only over TLS and only
/// from this very host, so that no other host of the domain can set one.
fn name(settings: &Settings) -> (&'static str, &'static str) {
    if settings.dash_url.starts_with("https:") { ("__Host-rpcgate", "; Secure") } else { ("rpcgate", "") }
}

fn received<'h>(headers: &'h HeaderMap, settings: &Settings) -> Option<&'h str> {
    let (name, _) = name(settings);
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    cookies
        .flat_map(|header| header.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
}

/// The answer that keeps a user logged in and leads to the home page.
pub(super) fn logged_in(app: &AppState, tokens: &SessionTokens) -> Result<Response, ActionError> {
    let cookie = issued(app, &tokens.claims)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(view::HOME)).into_response())
}

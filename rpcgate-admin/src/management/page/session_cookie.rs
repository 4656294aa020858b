//! Who looks at a page: how a browser stays logged in.
//!
//! A cookie holds a page token and nothing else, and every page gives the browser a fresh one. It opens no call of the
//! API, and an access token opens no page: whoever gets hold of one of those has it for as long as it lives. A refresh token would
//! last longer but is good once: two tabs that used it at the same moment would look like a thief beside the owner, and
//! the session would end. So a log-in of the pages is over when no page was opened for as long as a token lives,
//! at the latest when the session's own time ends. The token alone is worth nothing: the session is looked up for each
//! page, and one that was ended, here or elsewhere, is over at once.

use super::view;
use crate::management::access::{AuthSession, session_of};
use crate::management::app_state::{AppState, Settings};
use crate::management::error::ActionError;
use crate::management::identity::token::Claims;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{Redirect, Response};
use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use http::request::Parts;
use std::sync::Arc;
use std::time::Duration;

/// Who is logged in. Anybody else is sent to the log-in.
pub(crate) struct Visitor(pub(super) AuthSession);

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Redirect;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Redirect> {
        parts.extensions.get().cloned().map(Visitor).ok_or_else(|| Redirect::to(view::LOGIN))
    }
}

/// Whether somebody is logged in.
pub(crate) struct IsLoggedIn(pub(super) bool);

impl<S: Send + Sync> FromRequestParts<S> for IsLoggedIn {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(IsLoggedIn(parts.extensions.get::<AuthSession>().is_some()))
    }
}

/// Who is logged in, if somebody is.
pub(crate) struct CurrentSession(pub(super) Option<AuthSession>);

impl<S: Send + Sync> FromRequestParts<S> for CurrentSession {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(CurrentSession(parts.extensions.get::<AuthSession>().cloned()))
    }
}

/// Finds out who looks, and renews the cookie of whoever is logged in.
pub(super) async fn recognise(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let known = match given(request.headers(), &app.settings) {
        Some(token) => match session_of(&app, &app.page_tokens, token).await {
            Ok(known) => Some(known),
            Err(ActionError::Unauthenticated(_)) => None,
            Err(error) => return view::refusal(error),
        },
        None => None,
    };
    let Some((claims, session)) = known else { return next.run(request).await };
    request.extensions_mut().insert(session);
    let mut answer = next.run(request).await;
    // Whoever logs in or out has said what the cookie is to be.
    if !answer.headers().contains_key(SET_COOKIE) {
        match given_out(&app, &claims) {
            Ok(cookie) => drop(answer.headers_mut().insert(SET_COOKIE, cookie)),
            Err(error) => tracing::warn!(%error, "a log-in of the pages was not renewed"),
        }
    }
    answer
}

/// The value of `Set-Cookie` that keeps somebody logged in.
///
/// # Errors
/// [`ActionError::Broken`] if no token can be made, or none that a cookie can hold.
pub(super) fn given_out(app: &AppState, claims: &Claims) -> Result<HeaderValue, ActionError> {
    let token = app.page_tokens.issue(claims, app.now())?;
    kept(&app.settings, &token, app.page_tokens.ttl())
}

fn kept(settings: &Settings, token: &str, life: Duration) -> Result<HeaderValue, ActionError> {
    let (name, secure) = name(settings);
    let life = life.as_secs();
    let cookie = format!("{name}={token}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).map_err(|_| ActionError::Broken("a token does not fit a cookie".into()))
}

/// The value of `Set-Cookie` that forgets who was logged in.
///
/// # Errors
/// As [`given_out`].
pub(super) fn forgotten(settings: &Settings) -> Result<HeaderValue, ActionError> {
    kept(settings, "", Duration::ZERO)
}

/// The cookie's name, and what must stand at its end. A browser takes a name with `__Host-` only over TLS and only from
/// this very host, so that no other host of the domain can plant one.
fn name(settings: &Settings) -> (&'static str, &'static str) {
    if settings.dash_url.starts_with("https:") { ("__Host-rpcgate", "; Secure") } else { ("rpcgate", "") }
}

fn given<'h>(headers: &'h HeaderMap, settings: &Settings) -> Option<&'h str> {
    let (name, _) = name(settings);
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    cookies
        .flat_map(|header| header.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
}

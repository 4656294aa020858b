//! Logging in and out.

use super::factors::FactorPage;
use super::form::Form;
use super::session_cookie::{self, IsLoggedIn, Visitor, logged_in};
use super::view::{self, LOGIN, refused, shown};
use crate::management::access::AuthSession;
use crate::management::action::sessions::{self, LogIn};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::password::Typed;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template, Default)]
#[template(path = "login.html")]
struct LoginPage {
    problem: Option<String>,
    email: String,
}

/// The fields of the log-in form.
#[derive(Deserialize)]
pub(crate) struct Login {
    email: String,
    password: Typed,
}

/// The log-in form.
pub(crate) async fn form(IsLoggedIn(is_logged_in): IsLoggedIn) -> Response {
    if is_logged_in {
        return Redirect::to(view::HOME).into_response();
    }
    shown(StatusCode::OK, &LoginPage::default())
}

/// Logs a user in. The refresh token is discarded: see [`session_cookie`].
pub(crate) async fn login(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Login { email, password }): Form<Login>,
) -> Response {
    let begun = async {
        match sessions::login(&app, &email, password, &client).await? {
            LogIn::Opened(tokens) => logged_in(&app, &tokens),
            LogIn::Pending(pending) => Ok(shown(StatusCode::OK, &FactorPage::of(&pending))),
        }
    };
    match begun.await {
        Ok(answer) => answer,
        Err(error) => refused(error, |problem| LoginPage { problem: Some(problem), email }),
    }
}

/// Logs the user out.
pub(crate) async fn logout(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
) -> Response {
    match ended(&app, &session, &client).await {
        Ok(answer) => answer,
        Err(error) => view::refusal(error),
    }
}

async fn ended(app: &AppState, session: &AuthSession, client: &Client) -> Result<Response, ActionError> {
    sessions::logout(app, session, client).await?;
    let cookie = session_cookie::removed(&app.settings)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(LOGIN)).into_response())
}

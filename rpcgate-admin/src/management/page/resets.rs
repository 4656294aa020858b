//! Passwords that were forgotten.

use super::form::Form;
use super::view::{self, LOGIN, Notice, refused, shown};
use crate::management::action::resets;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Client, Query};
use crate::management::identity::password::{LEAST, Typed};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template, Default)]
#[template(path = "forgot.html")]
struct ForgotPage {
    problem: Option<String>,
    email: String,
}

#[derive(Template)]
#[template(path = "reset.html")]
struct ResetPage {
    problem: Option<String>,
    token: String,
}

/// Whose password was forgotten.
#[derive(Deserialize)]
pub(crate) struct Forgot {
    email: String,
}

/// What came by mail.
#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(default)]
    token: String,
}

/// What sets a password.
#[derive(Deserialize)]
pub(crate) struct Reset {
    token: String,
    password: Typed,
}

/// The form to ask for a mail.
pub(crate) async fn form() -> Response {
    shown(StatusCode::OK, &ForgotPage::default())
}

/// Sends the mail, if somebody has the address.
pub(crate) async fn forgot(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Forgot { email }): Form<Forgot>,
) -> Response {
    match resets::forgot(&app, &email, &client).await {
        Ok(()) => {
            let text = format!(
                "If {email} has an account, a mail is on its way. Open the link in it to choose a new password."
            );
            let way = Some((LOGIN, "Log in"));
            shown(StatusCode::ACCEPTED, &Notice { title: "Look into your mail", text, way, is_good: true })
        }
        Err(error) => refused(error, |problem| ForgotPage { problem: Some(problem), email }),
    }
}

/// Where the mail's link leads.
pub(crate) async fn link(asked: Result<Query<Link>, ActionError>) -> Response {
    match asked {
        Ok(Query(Link { token })) => shown(StatusCode::OK, &ResetPage { problem: None, token }),
        Err(error) => view::refusal(error),
    }
}

/// Sets the password.
pub(crate) async fn reset(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Reset { token, password }): Form<Reset>,
) -> Response {
    match resets::reset(&app, &token, password, &client).await {
        Ok(()) => {
            let text = "Log in with it. Whoever was logged in to your account is not any more.".into();
            let way = Some((LOGIN, "Log in"));
            shown(StatusCode::OK, &Notice { title: "Your password is changed", text, way, is_good: true })
        }
        Err(error) => refused(error, |problem| ResetPage { problem: Some(problem), token }),
    }
}

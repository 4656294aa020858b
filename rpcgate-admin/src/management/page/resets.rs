//! Resets of forgotten passwords.

use super::form::Form;
use super::view::{self, LOGIN, Notice, refused, shown};
use crate::management::action::resets;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Client, Query};
use crate::management::identity::password::{MIN_CHARACTERS, Typed};
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

/// The fields of the request form.
#[derive(Deserialize)]
pub(crate) struct Forgot {
    email: String,
}

/// The parameters of the link in the mail.
#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(default)]
    token: String,
}

/// The fields of the reset form.
#[derive(Deserialize)]
pub(crate) struct Reset {
    token: String,
    password: Typed,
}

/// The form to request a mail.
pub(crate) async fn form() -> Response {
    shown(StatusCode::OK, &ForgotPage::default())
}

/// Sends the mail, if the address has an account.
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
            let link = Some((LOGIN, "Log in"));
            shown(StatusCode::ACCEPTED, &Notice { title: "Look into your mail", text, link, is_good: true })
        }
        Err(error) => refused(error, |problem| ForgotPage { problem: Some(problem), email }),
    }
}

/// The target of the link in the mail.
pub(crate) async fn link(query: Result<Query<Link>, ActionError>) -> Response {
    match query {
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
            let text = "Log in with it. All earlier sessions of your account have ended.".into();
            let link = Some((LOGIN, "Log in"));
            shown(StatusCode::OK, &Notice { title: "Your password is changed", text, link, is_good: true })
        }
        Err(error) => refused(error, |problem| ResetPage { problem: Some(problem), token }),
    }
}

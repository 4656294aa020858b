//! The second step of a log-in.

use super::form::Form;
use super::session_cookie::logged_in;
use super::view::{self, refused};
use crate::management::action::factors::{self, GivenFactor};
use crate::management::action::sessions::PendingLogIn;
use crate::management::app_state::AppState;
use crate::management::extract::Client;
use askama::Template;
use axum::extract::State;
use axum::response::{Redirect, Response};
use serde::Deserialize;
use std::sync::Arc;

/// Digits of the code that an app shows. A recovery code is longer.
const APP_DIGITS: usize = 6;

/// The page that asks for a second factor.
#[derive(Template)]
#[template(path = "second_factor.html")]
pub(super) struct FactorPage {
    problem: Option<String>,
    token: String,
}

impl FactorPage {
    /// The page for a log-in that waits for a factor.
    pub(super) fn of(pending: &PendingLogIn) -> Self {
        FactorPage { problem: None, token: pending.token.expose().to_owned() }
    }
}

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct SecondFactor {
    token: String,
    code: String,
}

/// The page without a log-in that waits: it begins with the password.
pub(crate) async fn start() -> Redirect {
    Redirect::to(view::LOGIN)
}

/// Completes the log-in by a code of an app or a recovery code.
pub(crate) async fn verify(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(SecondFactor { token, code }): Form<SecondFactor>,
) -> Response {
    let completed = async {
        app.limits.anonymous.admit(client.address)?;
        let tokens = factors::verify(&app, &token, &given(code), &client).await?;
        logged_in(&app, &tokens)
    };
    match completed.await {
        Ok(answer) => answer,
        Err(error) => refused(error, |problem| FactorPage { problem: Some(problem), token }),
    }
}

/// A code of an app consists of as many digits; everything else is taken for a recovery code.
fn given(code: String) -> GivenFactor {
    let plain = code.chars().filter(|c| !c.is_whitespace());
    let is_of_app = plain.clone().count() == APP_DIGITS && plain.clone().all(|c| c.is_ascii_digit());
    if is_of_app { GivenFactor::Code(plain.collect()) } else { GivenFactor::RecoveryCode(code) }
}

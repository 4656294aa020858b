//! The second step of a log-in.

use super::context::{GatePage, PageResult};
use super::filters;
use super::form::Form;
use super::frame::Frame;
use super::problems::{Labels, Problems};
use super::session_cookie::logged_in;
use super::view::rejected;
use super::way::{below_root, redirect};
use crate::management::action::factors::{self, GivenFactor};
use crate::management::action::sessions::PendingLogIn;
use crate::management::app_state::AppState;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Deserialize;
use std::sync::Arc;

/// Digits of the code that an app shows. A recovery code is longer.
const APP_DIGITS: usize = 6;

const LABELS: Labels = &[("code", "Code")];

/// The routes of this page.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/login/second-factor", get(start).post(verify)).route("/second-factor", get(start))
}

/// The page that asks for a second factor.
#[derive(Template)]
#[template(path = "second_factor.html")]
pub(super) struct FactorPage {
    frame: Frame,
    problems: Problems,
    token: String,
    next: String,
}

impl FactorPage {
    /// The page for a log-in that waits for a factor and then leads to `next`.
    pub(super) fn of(frame: Frame, pending: &PendingLogIn, next: String) -> Self {
        FactorPage { frame, problems: Problems::default(), token: pending.token.expose().to_owned(), next }
    }
}

/// The fields of the form.
#[derive(Deserialize)]
struct SecondFactor {
    token: String,
    code: String,
    #[serde(default)]
    next: String,
}

/// The page without a log-in that waits: it begins with the password.
async fn start(page: GatePage) -> PageResult {
    Ok(redirect(&page.frame.root, "login"))
}

/// Completes the log-in by a code of an app or a recovery code.
async fn verify(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(SecondFactor { token, code, next }): Form<SecondFactor>,
) -> PageResult {
    let next = below_root(&next).to_owned();
    let completed = async {
        app.limits.anonymous.admit(page.client.address)?;
        let tokens = factors::verify(&app, &token, &given(code), &page.client).await?;
        logged_in(&app, &tokens, &page.frame.root, &next)
    };
    match completed.await {
        Ok(answer) => Ok(answer),
        Err(error) => {
            rejected(error, LABELS, |problems| FactorPage { frame: page.frame, problems, token, next })
        }
    }
}

/// A code of an app consists of as many digits; everything else is taken for a recovery code.
fn given(code: String) -> GivenFactor {
    let plain = code.chars().filter(|c| !c.is_whitespace());
    let is_of_app = plain.clone().count() == APP_DIGITS && plain.clone().all(|c| c.is_ascii_digit());
    if is_of_app { GivenFactor::Code(plain.collect()) } else { GivenFactor::RecoveryCode(code) }
}

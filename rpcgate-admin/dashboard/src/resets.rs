//! Resets of forgotten passwords.

use super::context::{GatePage, PageResult};
use super::filters;
use super::form::{Form, QueryFields};
use super::frame::Frame;
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::relative_address::redirect;
use super::submissions::shown_once;
use super::view::{Notice, ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action::resets::{self, RESET_PATH};
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::password::{MIN_CHARACTERS, Typed};
use rpcgate_management::routing::{get, post};
use rpcgate_store::KeptByReset;
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("email", "the e-mail address"), ("password", "the password")];

/// Mails of earlier versions link to `/forgot` and `/reset`.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/password/forgot", get(form).merge(post(forgot)))
        .route(RESET_PATH, get(link).merge(post(reset)))
        .route("/forgot", get(to_current_address))
        .route("/reset", get(to_current_address))
}

#[derive(Template)]
#[template(path = "forgot.html")]
struct ForgotPage {
    frame: Frame,
    problems: Problems,
    email: String,
}

#[derive(Template)]
#[template(path = "reset.html")]
struct ResetPage {
    frame: Frame,
    problems: Problems,
    token: String,
}

#[derive(Deserialize)]
struct Forgot {
    email: String,
}

#[derive(Deserialize)]
struct Reset {
    token: String,
    password: Typed,
    /// Present if the box was checked.
    keep_factors: Option<String>,
    /// Present if the box was checked.
    keep_invitations: Option<String>,
}

/// Redirects to the current address of the page, with the token of the link.
async fn to_current_address(page: GatePage) -> PageResult {
    Ok(redirect(&page.frame.root, &format!("password/{}", page.frame.here)))
}

async fn form(page: GatePage) -> PageResult {
    Ok(ok(&ForgotPage { frame: page.frame, problems: Problems::default(), email: String::new() }))
}

/// Sends the mail, if the address has an account.
async fn forgot(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(Forgot { email }): Form<Forgot>,
) -> PageResult {
    match resets::forgot(&app, &email, &page.client).await {
        Ok(()) => {
            let text = format!(
                "If {email} has an account, a mail is on its way. Open the link in it to choose a new password."
            );
            let title = "Check your mail";
            let path = "login";
            let label = "Log in";
            let notice = Notice { frame: page.result_frame(), title, text, tone: "ok", path, label };
            Ok(shown_once(StatusCode::ACCEPTED, &notice))
        }
        Err(error) => rejected(error, LABELS, |problems| ForgotPage { frame: page.frame, problems, email }),
    }
}

/// Handles the link in the mail.
async fn link(page: GatePage, QueryFields(query): QueryFields) -> PageResult {
    let token = query.one("token").to_owned();
    Ok(ok(&ResetPage { frame: page.frame, problems: Problems::default(), token }))
}

async fn reset(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(Reset { token, password, keep_factors, keep_invitations }): Form<Reset>,
) -> PageResult {
    let kept = KeptByReset { factors: keep_factors.is_some(), invitations: keep_invitations.is_some() };
    match resets::reset(&app, &token, password, kept, &page.client).await {
        Ok(()) => Ok(page.done("login", Done::PasswordReset)),
        Err(error) => rejected(error, LABELS, |problems| ResetPage { frame: page.frame, problems, token }),
    }
}

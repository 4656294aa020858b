//! Another address for the own account.

use super::form::Form;
use super::session_cookie::Visitor;
use super::view::{HOME, Notice, refused, shown};
use crate::management::action::emails;
use crate::management::app_state::AppState;
use crate::management::extract::Client;
use crate::management::identity::password::Typed;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "email.html")]
struct EmailPage {
    problem: Option<String>,
    before: String,
    email: String,
}

/// What changes an address.
#[derive(Deserialize)]
pub(crate) struct Change {
    email: String,
    password: Typed,
}

/// The form to change it.
pub(crate) async fn form(Visitor(session): Visitor) -> Response {
    let before = session.user.email.clone();
    shown(StatusCode::OK, &EmailPage { problem: None, before, email: String::new() })
}

/// Sends a mail to the address that is to be.
pub(crate) async fn change(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
    Form(Change { email, password }): Form<Change>,
) -> Response {
    match emails::ask(&app, &session, &email, password, &client).await {
        Ok(asked) => {
            let text = format!(
                "A mail is on its way to {asked}. Open the link in it, and that is your address. Until then nothing is \
                 changed."
            );
            let way = Some((HOME, "Go on"));
            shown(StatusCode::ACCEPTED, &Notice { title: "Look into your mail", text, way, is_good: true })
        }
        Err(error) => {
            let before = session.user.email.clone();
            refused(error, |problem| EmailPage { problem: Some(problem), before, email })
        }
    }
}

//! Change of the user's address.

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

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct Change {
    email: String,
    password: Typed,
}

/// The form to change the address.
pub(crate) async fn form(Visitor(session): Visitor) -> Response {
    let before = session.user.email.clone();
    shown(StatusCode::OK, &EmailPage { problem: None, before, email: String::new() })
}

/// Sends a mail to the new address.
pub(crate) async fn change(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
    Form(Change { email, password }): Form<Change>,
) -> Response {
    match emails::request(&app, &session, &email, password, &client).await {
        Ok(address) => {
            let text = format!(
                "A mail is on its way to {address}. Open the link in it, and that is your address. Until then nothing is \
                 changed."
            );
            let link = Some((HOME, "Go on"));
            shown(StatusCode::ACCEPTED, &Notice { title: "Look into your mail", text, link, is_good: true })
        }
        Err(error) => {
            let before = session.user.email.clone();
            refused(error, |problem| EmailPage { problem: Some(problem), before, email })
        }
    }
}

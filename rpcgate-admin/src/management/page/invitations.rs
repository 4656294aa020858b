//! Accepting an invitation.

use super::form::Form;
use super::view::{self, LOGIN, Notice, refused, shown};
use crate::management::action::invitations;
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

#[derive(Template)]
#[template(path = "invitation.html")]
struct InvitationPage {
    problem: Option<String>,
    token: String,
    name: String,
}

/// The parameters of the link in the mail.
#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(default)]
    token: String,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct Acceptance {
    token: String,
    #[serde(default)]
    name: String,
    password: Typed,
}

/// The target of the link in the mail.
pub(crate) async fn link(query: Result<Query<Link>, ActionError>) -> Response {
    match query {
        Ok(Query(Link { token })) => {
            shown(StatusCode::OK, &InvitationPage { problem: None, token, name: String::new() })
        }
        Err(error) => view::refusal(error),
    }
}

/// Creates the account of the invited user.
pub(crate) async fn accept(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Acceptance { token, name, password }): Form<Acceptance>,
) -> Response {
    match invitations::accept(&app, &token, name.clone(), password, &client).await {
        Ok(applicant) => {
            let text =
                format!("You can log in with {} and the password that you have chosen.", applicant.email);
            let link = Some((LOGIN, "Log in"));
            shown(StatusCode::CREATED, &Notice { title: "Your account is ready", text, link, is_good: true })
        }
        Err(error) => refused(error, |problem| InvitationPage { problem: Some(problem), token, name }),
    }
}

//! Joining by invitation.

use super::form::Form;
use super::view::{self, LOGIN, Notice, refused, shown};
use crate::management::action::invitations;
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

#[derive(Template)]
#[template(path = "invitation.html")]
struct InvitationPage {
    problem: Option<String>,
    token: String,
    name: String,
}

/// What came by mail.
#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(default)]
    token: String,
}

/// What somebody joins with.
#[derive(Deserialize)]
pub(crate) struct Acceptance {
    token: String,
    #[serde(default)]
    name: String,
    password: Typed,
}

/// Where the mail's link leads.
pub(crate) async fn link(asked: Result<Query<Link>, ActionError>) -> Response {
    match asked {
        Ok(Query(Link { token })) => {
            shown(StatusCode::OK, &InvitationPage { problem: None, token, name: String::new() })
        }
        Err(error) => view::refusal(error),
    }
}

/// Makes the account of whoever was invited.
pub(crate) async fn accept(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Acceptance { token, name, password }): Form<Acceptance>,
) -> Response {
    match invitations::accept(&app, &token, name.clone(), password, &client).await {
        Ok(applicant) => {
            let text =
                format!("You can log in with {} and the password that you have chosen.", applicant.email);
            let way = Some((LOGIN, "Log in"));
            shown(StatusCode::CREATED, &Notice { title: "Your account is ready", text, way, is_good: true })
        }
        Err(error) => refused(error, |problem| InvitationPage { problem: Some(problem), token, name }),
    }
}

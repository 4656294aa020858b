//! Accepting an invitation.

use super::context::{GatePage, PageResult};
use super::filters;
use super::form::{Form, QueryFields};
use super::frame::Frame;
use super::problems::{Labels, Problems};
use super::submissions::shown_once;
use super::view::{Notice, ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action::invitations::{self, MAIL_PATH};
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::password::{MIN_CHARACTERS, Typed};
use rpcgate_management::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("name", "the name"), ("password", "the password")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route(MAIL_PATH, get(link).merge(post(accept)))
}

#[derive(Template)]
#[template(path = "invitation.html")]
struct InvitationPage {
    frame: Frame,
    problems: Problems,
    token: String,
    name: String,
}

#[derive(Deserialize)]
struct Acceptance {
    token: String,
    #[serde(default)]
    name: String,
    password: Typed,
}

/// Handles the link in the mail.
async fn link(page: GatePage, QueryFields(query): QueryFields) -> PageResult {
    let token = query.one("token").to_owned();
    let name = String::new();
    Ok(ok(&InvitationPage { frame: page.frame, problems: Problems::default(), token, name }))
}

async fn accept(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(Acceptance { token, name, password }): Form<Acceptance>,
) -> PageResult {
    match invitations::accept(&app, &token, name.clone(), password, &page.client).await {
        Ok(applicant) => {
            let text =
                format!("You can log in with {} and the password that you have chosen.", applicant.email);
            let title = "Your account is ready";
            let path = "login";
            let label = "Log in";
            let notice = Notice { frame: page.result_frame(), title, text, tone: "ok", path, label };
            Ok(shown_once(StatusCode::CREATED, &notice))
        }
        Err(error) => {
            rejected(error, LABELS, |problems| InvitationPage { frame: page.frame, problems, token, name })
        }
    }
}

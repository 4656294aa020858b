//! Adding an authenticator app.

use super::form::Form;
use super::session_cookie::Visitor;
use super::view::{refused, shown};
use crate::management::action::totp::{self, OfferedTotp};
use crate::management::app_state::AppState;
use crate::management::extract::Client;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rpcgate_core::config::Secret;
use serde::Deserialize;
use std::sync::Arc;

/// The page that offers to add an app.
#[derive(Template, Default)]
#[template(path = "totp.html")]
struct TotpPage {
    problem: Option<String>,
}

/// The page that asks for the first code.
#[derive(Template, Default)]
#[template(path = "totp_activate.html")]
struct ActivatePage {
    problem: Option<String>,
    /// The secret, which is shown once.
    offered: Option<OfferedTotp>,
}

/// The page with the recovery codes.
#[derive(Template)]
#[template(path = "recovery_codes.html")]
struct RecoveryCodesPage {
    codes: Vec<Secret>,
}

/// The field of the form.
#[derive(Deserialize)]
pub(crate) struct FirstCode {
    code: String,
}

/// Offers to add an app.
pub(crate) async fn show(Visitor(_): Visitor) -> Response {
    shown(StatusCode::OK, &TotpPage::default())
}

/// Makes a secret and shows it.
pub(crate) async fn enroll(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
) -> Response {
    match totp::enroll(&app, &session, &client).await {
        Ok(offered) => shown(StatusCode::OK, &ActivatePage { problem: None, offered: Some(offered) }),
        Err(error) => refused(error, |problem| TotpPage { problem: Some(problem) }),
    }
}

/// Activates the app and shows the recovery codes.
pub(crate) async fn activate(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
    Form(FirstCode { code }): Form<FirstCode>,
) -> Response {
    match totp::activate(&app, &session, &code, None, &client).await {
        Ok(codes) => shown(StatusCode::OK, &RecoveryCodesPage { codes }),
        Err(error) => refused(error, |problem| ActivatePage { problem: Some(problem), offered: None }),
    }
}

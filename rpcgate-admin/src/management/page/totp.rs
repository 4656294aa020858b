//! Adding an authenticator app.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{Form, PlainForm};
use super::frame::{Frame, Place};
use super::problems::{Labels, Problems};
use super::view::{ok, rejected};
use crate::management::action::totp::{self, OfferedTotp};
use crate::management::app_state::AppState;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use rpcgate_core::config::Secret;
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("code", "Code")];

/// The routes of these pages.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/totp", get(show).post(enroll)).route("/totp-activate", post(activate))
}

/// The page that offers to add an app.
#[derive(Template)]
#[template(path = "totp.html")]
struct TotpPage {
    frame: Frame,
    problems: Problems,
}

/// The page that asks for the first code.
#[derive(Template)]
#[template(path = "totp_activate.html")]
struct ActivatePage {
    frame: Frame,
    problems: Problems,
    /// The secret, which is shown once.
    offered: Option<OfferedTotp>,
}

/// The page with the recovery codes.
#[derive(Template)]
#[template(path = "recovery_codes.html")]
struct RecoveryCodesPage {
    frame: Frame,
    codes: Vec<Secret>,
}

/// The field of the form.
#[derive(Deserialize)]
struct FirstCode {
    code: String,
}

/// Offers to add an app.
async fn show(page: PageContext) -> PageResult {
    Ok(ok(&TotpPage { frame: page.frame(Place::Nowhere), problems: Problems::default() }))
}

/// Makes a secret and shows it.
async fn enroll(State(app): State<Arc<AppState>>, page: PageContext, _: PlainForm) -> PageResult {
    let frame = page.frame(Place::Nowhere);
    match totp::enroll(&app, &page.session, &page.client).await {
        Ok(offered) => Ok(ok(&ActivatePage { frame, problems: Problems::default(), offered: Some(offered) })),
        Err(error) => rejected(error, LABELS, |problems| TotpPage { frame, problems }),
    }
}

/// Activates the app and shows the recovery codes.
async fn activate(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Form(FirstCode { code }): Form<FirstCode>,
) -> PageResult {
    let frame = page.frame(Place::Nowhere);
    match totp::activate(&app, &page.session, &code, None, &page.client).await {
        Ok(codes) => Ok(ok(&RecoveryCodesPage { frame, codes })),
        Err(error) => rejected(error, LABELS, |problems| ActivatePage { frame, problems, offered: None }),
    }
}

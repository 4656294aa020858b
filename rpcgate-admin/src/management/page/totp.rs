//! The authenticator app of a user: adding and removing it.

use super::context::{PageContext, PageResult};
use super::factor_confirm::FactorConfirmPage;
use super::factor_fields::{self, FactorChoice};
use super::filters;
use super::form::{FieldList, Form, PlainForm};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::recovery_codes::RecoveryCodesPage;
use super::security::SECURITY;
use super::step_up::Proven;
use super::submissions::shown_once;
use super::view::{ok, rejected};
use crate::management::action::factors::{self, GivenFactor};
use crate::management::action::totp::{self, OfferedTotp};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("code", "the code"), (factor_fields::CODE, "the code")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/account/security/totp", get(show).post(enroll))
        .route("/account/security/totp/activate", post(activate))
        .route("/account/security/totp/off", get(ask).post(disable))
        .route("/totp", get(redirect))
}

/// The page that offers to add an app, and asks for its first code.
#[derive(Template)]
#[template(path = "totp.html")]
struct TotpPage {
    frame: Frame,
    problems: Problems,
    /// The secret, which is shown once.
    offered: Option<OfferedTotp>,
    /// True while a secret waits for its first code.
    is_begun: bool,
}

#[derive(Deserialize)]
struct FirstCode {
    code: String,
}

/// Redirects from an earlier address of this page.
async fn redirect(page: PageContext) -> PageResult {
    Ok(page.to(SECURITY))
}

async fn show(Proven(page): Proven) -> PageResult {
    let (frame, problems) = (page.frame(PageSection::Nowhere), Problems::default());
    Ok(ok(&TotpPage { frame, problems, offered: None, is_begun: false }))
}

/// Generates a secret and shows it.
async fn enroll(State(app): State<Arc<AppState>>, Proven(page): Proven, _: PlainForm) -> PageResult {
    match totp::enroll(&app, &page.session, &page.client).await {
        Ok(offered) => {
            let frame = page.result_frame(PageSection::Nowhere);
            let (problems, offered) = (Problems::default(), Some(offered));
            Ok(shown_once(StatusCode::OK, &TotpPage { frame, problems, offered, is_begun: true }))
        }
        Err(error) => rejected(error, LABELS, |problems| {
            let frame = page.frame(PageSection::Nowhere);
            TotpPage { frame, problems, offered: None, is_begun: false }
        }),
    }
}

/// Activates the app and shows the recovery codes.
async fn activate(
    State(app): State<Arc<AppState>>,
    Proven(page): Proven,
    Form(FirstCode { code }): Form<FirstCode>,
) -> PageResult {
    match totp::activate(&app, &page.session, &code, Some(GivenFactor::Recent), &page.client).await {
        Ok(codes) => {
            let frame = page.result_frame(PageSection::Nowhere);
            Ok(shown_once(StatusCode::OK, &RecoveryCodesPage { frame, what: "Your app is added.", codes }))
        }
        Err(error) => rejected(error, LABELS, |problems| {
            let frame = page.frame(PageSection::Nowhere);
            TotpPage { frame, problems, offered: None, is_begun: true }
        }),
    }
}

/// Makes the question whether to remove the app.
async fn question(app: &AppState, page: &PageContext) -> Result<FactorConfirmPage, ActionError> {
    let choice = FactorChoice::of(app, factors::overview(app, &page.session).await?);
    Ok(FactorConfirmPage {
        frame: page.frame(PageSection::Nowhere),
        problems: Problems::default(),
        choice,
        question: "Turn the authenticator app off?".into(),
        consequences: vec![
            "All your other sessions end.",
            "Without another factor, your password alone logs you in, and your recovery codes are invalid.",
        ],
        act: "Turn the app off",
        is_dangerous: true,
    })
}

async fn ask(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    Ok(ok(&question(&app, &page).await?))
}

async fn disable(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let done = async {
        let given = factor_fields::of_form(&fields, factor_fields::CODE)?;
        totp::disable(&app, &page.session, &given, &page.client).await
    };
    match done.await {
        Ok(()) => Ok(page.done(SECURITY, Done::AppRemoved)),
        Err(error) => {
            let form = question(&app, &page).await?;
            rejected(error, LABELS, |problems| FactorConfirmPage { problems, ..form })
        }
    }
}

//! The authenticator app of a user: adding and removing it.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::factor_fields::{self, FactorChoice, LAST_FACTOR};
use super::filters;
use super::form::{Form, PlainForm};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::recovery_codes::RecoveryCodesPage;
use super::security::SECURITY;
use super::step_up::Proven;
use super::submissions::shown_once;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action::factors::{self, GivenFactor};
use rpcgate_management::action::totp::{self, OfferedTotp};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("code", "the code"), (factor_fields::CODE, "the code")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/account/security/totp", get(show).merge(post(enroll)))
        .route("/account/security/totp/activate", post(activate))
        .route("/account/security/totp/off", confirmed::<AppRemoval>())
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
    let frame = page.frame(PageSection::Nowhere);
    let problems = Problems::default();
    Ok(ok(&TotpPage { frame, problems, offered: None, is_begun: false }))
}

/// Generates a secret and shows it.
async fn enroll(State(app): State<Arc<AppState>>, Proven(page): Proven, _: PlainForm) -> PageResult {
    match totp::enroll(&app, &page.session, &page.client).await {
        Ok(offered) => {
            let frame = page.result_frame(PageSection::Nowhere);
            let problems = Problems::default();
            let offered = Some(offered);
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

struct AppRemoval(FactorChoice);

impl Confirmed for AppRemoval {
    type Reader = PageContext;
    type Path = ();
    const LABELS: Labels = LABELS;

    async fn load(request: ConfirmRequest<'_>, (): ()) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        Ok(AppRemoval(FactorChoice::of(app, factors::overview(app, &page.session).await?)))
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        ConfirmQuestion::of_factors(page, self.0, "Turn the authenticator app off?", "Turn the app off")
            .consequence("All your other sessions end.")
            .consequence(LAST_FACTOR)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        let given = factor_fields::of_form(fields, factor_fields::CODE)?;
        totp::disable(app, &page.session, &given, &page.client).await?;
        Ok(page.done(SECURITY, Done::AppRemoved))
    }
}

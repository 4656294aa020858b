//! Passkeys: adding, removing and using them. The script `static/passkeys.js` runs the browser's part: it requests a
//! ceremony and puts the browser's response into the form.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{GatePage, PageContext, PageResult};
use super::factor_fields::{self, FactorChoice, LAST_FACTOR, credential};
use super::filters;
use super::form::FieldList;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::recovery_codes::RecoveryCodesPage;
use super::relative_address::below_root;
use super::security::SECURITY;
use super::session_cookie::logged_in;
use super::step_up::Proven;
use super::submissions::shown_once;
use super::view::{Notice, ok, rejected, sentence};
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::StatusCode;
use rpcgate_management::action::factors::{self, GivenFactor};
use rpcgate_management::action::passkeys::{self, RegisteredPasskey};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::passkey::{PasskeyAnswer, RegistrationAnswer, StartedCeremony};
use rpcgate_management::routing::{get, post};
use rpcgate_store::{PasskeyId, StoredPasskey};
use serde_json::json;
use std::sync::Arc;

const LABELS: Labels = &[("name", "the name"), (factor_fields::CODE, "the code")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/account/security/passkeys", post(finish))
        .route("/account/security/passkeys/new", get(form))
        .route("/account/security/passkeys/start", post(start))
        .route("/account/security/passkeys/{id}/remove", confirmed::<PasskeyRemoval>())
        .route("/account/security/factor/start", post(start_factor))
        .route("/login/passkey/start", post(start_log_in))
        .route("/login/passkey", post(log_in))
}

#[derive(Template)]
#[template(path = "passkey_new.html")]
struct NewPasskeyPage {
    frame: Frame,
    problems: Problems,
    name: String,
}

/// Answers the script: with a ceremony, or with the reason why it cannot start.
fn begun(started: Result<StartedCeremony, ActionError>) -> Response {
    match started {
        Ok(StartedCeremony { token, options }) => {
            Json(json!({"ceremony": token, "options": options})).into_response()
        }
        Err(error) => {
            let body = json!({"error": sentence(&error.to_string())});
            (error.status(), Json(body)).into_response()
        }
    }
}

async fn form(Proven(page): Proven) -> PageResult {
    let frame = page.frame(PageSection::Nowhere);
    let problems = Problems::default();
    Ok(ok(&NewPasskeyPage { frame, problems, name: String::new() }))
}

async fn start(State(app): State<Arc<AppState>>, page: PageContext, _: FieldList) -> Response {
    let recent = Some(GivenFactor::Recent);
    begun(passkeys::start_registration(&app, &page.session, recent, &page.client).await)
}

/// Adds a passkey. With the user's first factor, the recovery codes are shown.
async fn finish(State(app): State<Arc<AppState>>, Proven(page): Proven, fields: FieldList) -> PageResult {
    let ceremony = fields.one("ceremony");
    let name = fields.one("name").to_owned();
    let added = async {
        let answer = RegistrationAnswer::read(credential(&fields)?)?;
        passkeys::finish_registration(&app, &page.session, &page.actor, ceremony, &answer, &name).await
    };
    match added.await {
        Ok(RegisteredPasskey { recovery_codes: Some(codes), .. }) => {
            let frame = page.result_frame(PageSection::Nowhere);
            let codes = RecoveryCodesPage { frame, what: "Your passkey is added.", codes };
            Ok(shown_once(StatusCode::OK, &codes))
        }
        Ok(RegisteredPasskey { recovery_codes: None, .. }) => Ok(page.done(SECURITY, Done::PasskeyAdded)),
        Err(error) => rejected(error, LABELS, |problems| {
            let frame = page.frame(PageSection::Nowhere);
            NewPasskeyPage { frame, problems, name }
        }),
    }
}

struct PasskeyRemoval {
    passkey: StoredPasskey,
    choice: FactorChoice,
}

impl Confirmed for PasskeyRemoval {
    type Reader = PageContext;
    type Path = Id<PasskeyId>;
    const LABELS: Labels = LABELS;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<PasskeyId>) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        let mut its = passkeys::list(app, &page.session).await?.into_iter();
        let passkey = its.find(|passkey| passkey.id == id).ok_or(ActionError::NotFound("passkey"))?;
        let choice = FactorChoice::of(app, factors::overview(app, &page.session).await?);
        Ok(PasskeyRemoval { passkey, choice })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let question = format!("Remove {}?", self.passkey.name);
        ConfirmQuestion::of_factors(page, self.choice, question, "Remove the passkey")
            .consequence("You can no longer log in with it. Delete it on the device as well.")
            .consequence("All your other sessions end.")
            .consequence(LAST_FACTOR)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        let given = factor_fields::of_form(fields, factor_fields::CODE)?;
        passkeys::remove(app, &page.session, self.passkey.id, &given, &page.client).await?;
        Ok(page.done(SECURITY, Done::PasskeyRemoved))
    }
}

/// Starts a passkey ceremony in a form that requires a factor.
async fn start_factor(State(app): State<Arc<AppState>>, page: PageContext, _: FieldList) -> Response {
    begun(passkeys::start_factor(&app, &page.session).await)
}

/// Starts a passkey ceremony at the log-in: for the user of the pending log-in, or for any user.
async fn start_log_in(State(app): State<Arc<AppState>>, page: GatePage, fields: FieldList) -> Response {
    if let Err(error) = app.limits.anonymous.admit(page.client.address) {
        return begun(Err(error.into()));
    }
    begun(passkeys::start_log_in(&app, fields.filled("token")).await)
}

async fn log_in(State(app): State<Arc<AppState>>, page: GatePage, fields: FieldList) -> PageResult {
    let opened = async {
        let answer = PasskeyAnswer::read(credential(&fields)?)?;
        let tokens = passkeys::finish_log_in(&app, fields.one("ceremony"), &answer, &page.client).await?;
        logged_in(&app, &tokens, &page.frame.root, below_root(fields.one("next")))
    };
    match opened.await {
        Ok(answer) => Ok(answer),
        Err(error) => rejected(error, &[], |problems| {
            let text = problems.all().first().map(|problem| problem.text.clone()).unwrap_or_default();
            let title = "Not logged in";
            let path = "login";
            let label = "Log in another way";
            Notice { frame: page.frame, title, text, tone: "bad", path, label }
        }),
    }
}

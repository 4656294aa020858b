//! The second step of a log-in.

use super::context::{GatePage, PageResult};
use super::factor_fields::{self, FactorChoice};
use super::filters;
use super::form::FieldList;
use super::frame::Frame;
use super::problems::{Labels, Problems};
use super::relative_address::{below_root, redirect};
use super::session_cookie::logged_in;
use super::view::rejected;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::factors;
use rpcgate_management::action::sessions::PendingLogIn;
use rpcgate_management::app_state::AppState;
use rpcgate_management::routing::{get, post};
use std::sync::Arc;

const LABELS: Labels = &[("code", "the code")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/login/second-factor", get(start).merge(post(verify)))
        .route("/second-factor", get(start))
}

#[derive(Template)]
#[template(path = "second_factor.html")]
pub(super) struct FactorPage {
    frame: Frame,
    problems: Problems,
    token: String,
    next: String,
    has_passkey: bool,
}

impl FactorPage {
    pub(super) fn of(app: &AppState, frame: Frame, pending: &PendingLogIn, next: String) -> Self {
        let token = pending.token.expose().to_owned();
        let has_passkey = FactorChoice::of(app, pending.factors).passkey;
        FactorPage { frame, problems: Problems::default(), token, next, has_passkey }
    }
}

/// Redirects to the log-in, which begins with the password: no log-in is pending here.
async fn start(page: GatePage) -> PageResult {
    Ok(redirect(&page.frame.root, "login"))
}

/// Completes the log-in with a code of an app, a recovery code or a passkey.
async fn verify(State(app): State<Arc<AppState>>, page: GatePage, fields: FieldList) -> PageResult {
    let token = fields.one("token").to_owned();
    let next = below_root(fields.one("next")).to_owned();
    let completed = async {
        app.limits.anonymous.admit(page.client.address)?;
        let is_passkey = fields.has("ceremony");
        let given = if is_passkey {
            factor_fields::of_form(&fields, "code")?
        } else {
            factor_fields::code(fields.one("code"))
        };
        let tokens = factors::verify(&app, &token, &given, &page.client).await?;
        logged_in(&app, &tokens, &page.frame.root, &next)
    };
    match completed.await {
        Ok(answer) => Ok(answer),
        Err(error) => {
            let frame = page.frame;
            let has_passkey = fields.has("passkey");
            rejected(error, LABELS, |problems| FactorPage { frame, problems, token, next, has_passkey })
        }
    }
}

//! Logging in and out.

use super::context::{GatePage, PageContext, PageResult};
use super::factor_fields::takes_passkeys;
use super::factors::FactorPage;
use super::filters;
use super::form::{FieldList, Form, PlainForm, QueryFields};
use super::frame::Frame;
use super::problems::{Labels, Problems};
use super::relative_address::{below_root, redirect};
use super::session_cookie::{self, logged_in};
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::SET_COOKIE;
use rpcgate_management::action::sessions::{self, LogIn};
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::password::Typed;
use rpcgate_management::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("email", "the e-mail address"), ("password", "the password")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/login", get(form).merge(post(login))).route("/logout", post(logout))
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    problems: Problems,
    email: String,
    next: String,
    takes_passkeys: bool,
}

#[derive(Deserialize)]
struct Login {
    email: String,
    password: Typed,
    #[serde(default)]
    next: String,
}

async fn form(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let next = next_of(&query);
    if page.session.is_some() {
        return Ok(redirect(&page.frame.root, &next));
    }
    let problems = Problems::default();
    let email = String::new();
    let takes_passkeys = takes_passkeys(&app);
    Ok(ok(&LoginPage { frame: page.frame, problems, email, next, takes_passkeys }))
}

fn next_of(query: &FieldList) -> String {
    below_root(query.one("next")).to_owned()
}

/// Logs a user in. The refresh token is discarded: see [`session_cookie`].
async fn login(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(Login { email, password, next }): Form<Login>,
) -> PageResult {
    let next = below_root(&next).to_owned();
    let begun = async {
        match sessions::login(&app, &email, password, &page.client).await? {
            LogIn::Opened(tokens) => logged_in(&app, &tokens, &page.frame.root, &next),
            LogIn::Pending(pending) => {
                Ok(ok(&FactorPage::of(&app, page.frame.clone(), &pending, next.clone())))
            }
        }
    };
    match begun.await {
        Ok(answer) => Ok(answer),
        Err(error) => {
            let frame = page.frame;
            let takes_passkeys = takes_passkeys(&app);
            rejected(error, LABELS, |problems| LoginPage { frame, problems, email, next, takes_passkeys })
        }
    }
}

async fn logout(State(app): State<Arc<AppState>>, page: PageContext, _: PlainForm) -> PageResult {
    sessions::logout(&app, &page.session, &page.client).await?;
    let cookie = session_cookie::removed(&app.settings)?;
    Ok(([(SET_COOKIE, cookie)], page.to("login")).into_response())
}

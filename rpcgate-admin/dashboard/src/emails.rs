//! Change of the user's address.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::Form;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::emails;
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::password::Typed;
use rpcgate_management::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("email", "the new e-mail address"), ("password", "the password")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/email", get(form).merge(post(change)))
}

#[derive(Template)]
#[template(path = "email.html")]
struct EmailPage {
    frame: Frame,
    problems: Problems,
    before: String,
    email: String,
}

#[derive(Deserialize)]
struct AddressForm {
    email: String,
    password: Typed,
}

async fn form(page: PageContext) -> PageResult {
    let before = page.actor.user.email.clone();
    let frame = page.frame(PageSection::Nowhere);
    let problems = Problems::default();
    Ok(ok(&EmailPage { frame, problems, before, email: String::new() }))
}

async fn change(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Form(AddressForm { email, password }): Form<AddressForm>,
) -> PageResult {
    match emails::request(&app, &page.session, &email, Some(password), &page.client).await {
        Ok(_) => Ok(page.done("", Done::AddressChangeSent)),
        Err(error) => {
            let frame = page.frame(PageSection::Nowhere);
            let before = page.actor.user.email.clone();
            rejected(error, LABELS, |problems| EmailPage { frame, problems, before, email })
        }
    }
}

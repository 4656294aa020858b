//! The profile of a user: name, address, password.

use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{FieldList, Form};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::versions::{FormVersion, condition};
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::me;
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::password::{MIN_CHARACTERS, Typed};
use rpcgate_management::routing::{get, post};
use rpcgate_store::Version;
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[
    ("name", "the name"),
    ("current_password", "the current password"),
    ("new_password", "the new password"),
];

const PROFILE: &str = "account";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/account", get(show))
        .route("/account/name", post(rename))
        .route("/account/password", post(change_password))
}

#[derive(Template)]
#[template(path = "profile.html")]
struct ProfilePage {
    frame: Frame,
    problems: Problems,
    version: FormVersion,
    name: String,
    email: String,
    is_confirmed: bool,
    role: &'static str,
}

impl ProfilePage {
    fn of(page: &PageContext, problems: Problems) -> Self {
        let user = &page.actor.user;
        ProfilePage {
            frame: page.frame(PageSection::Nowhere),
            problems,
            version: Version::of_profile(user.id, &user.name).into(),
            name: user.name.clone(),
            email: user.email.clone(),
            is_confirmed: user.confirmed_at.is_some(),
            role: user.role_name(),
        }
    }
}

async fn show(page: PageContext) -> PageResult {
    Ok(ok(&ProfilePage::of(&page, Problems::default())))
}

async fn rename(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let name = fields.one("name");
    match me::rename(&app, &page.session, name, condition(&fields).as_ref(), &page.client).await {
        Ok(_) => Ok(page.done(PROFILE, Done::ProfileSaved)),
        Err(error) => {
            let shown = ProfilePage::of(&page, Problems::default());
            rejected(error, LABELS, |problems| ProfilePage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values([("Name", shown.name, name.to_owned())]),
                name: name.to_owned(),
                ..shown
            })
        }
    }
}

#[derive(Deserialize)]
struct PasswordForm {
    current_password: Typed,
    new_password: Typed,
}

async fn change_password(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Form(PasswordForm { current_password, new_password }): Form<PasswordForm>,
) -> PageResult {
    match me::change_password(&app, &page.session, Some(current_password), new_password, &page.client).await {
        Ok(()) => Ok(page.done(PROFILE, Done::PasswordChanged)),
        Err(error) => rejected(error, LABELS, |problems| ProfilePage::of(&page, problems)),
    }
}

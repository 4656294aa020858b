//! The user's home page.

use super::context::{PageContext, PageResult};
use super::filters;
use super::frame::{Frame, Place};
use super::notifications::Unread;
use super::view::ok;
use crate::management::app_state::AppState;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use std::sync::Arc;

/// The routes of this page.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/", get(show))
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    name: String,
    email: String,
    role: &'static str,
    unread: Unread,
    is_confirmed: bool,
    has_factor: bool,
}

/// Shows the home page.
async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    let user = &page.actor.user;
    let (place, unread) = if user.is_operator() {
        (Place::OperatorOverview, Unread::default())
    } else {
        (Place::Overview, Unread::of(&app, &page.actor).await?)
    };
    Ok(ok(&HomePage {
        frame: page.frame(place),
        name: user.name.clone(),
        email: user.email.clone(),
        role: user.role_name(),
        unread,
        is_confirmed: user.confirmed_at.is_some(),
        has_factor: page.session.has_second_factor,
    }))
}

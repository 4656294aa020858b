//! The pages for people, at the root of the management listener: the HTML face of the actions that [`api`](super::api)
//! is the JSON face of.
//!
//! Pages link to each other by relative paths, so that they may be served below a path of the dashboard's host. None
//! needs a script but the one to register, whose challenge a browser has to work for.

pub(crate) mod accounts;
pub(crate) mod assets;
pub(crate) mod emails;
mod form;
mod guard;
pub(crate) mod home;
pub(crate) mod invitations;
pub(crate) mod notifications;
pub(crate) mod resets;
mod session_cookie;
pub(crate) mod sessions;
mod view;

use crate::management::app_state::AppState;
use axum::Router;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

/// `pages` with what holds for every page around them: where forms may come from, and who is looking.
pub(crate) fn around(pages: Router<Arc<AppState>>, app: &Arc<AppState>) -> Router<Arc<AppState>> {
    pages
        .route_layer(from_fn_with_state(app.clone(), session_cookie::recognise))
        .route_layer(from_fn_with_state(app.clone(), guard::pass))
}

#[cfg(test)]
mod tests;

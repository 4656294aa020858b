//! The pages for people, at the root of the management listener: the HTML interface of the actions, as
//! [`api`](super::api) is their JSON interface.
//!
//! Pages link to each other by relative paths, so that they can be served below a path of the dashboard's host. Only
//! the registration page needs a script, because the browser has to solve its challenge.

pub(crate) mod accounts;
pub(crate) mod assets;
pub(crate) mod emails;
pub(crate) mod factors;
mod form;
mod guard;
pub(crate) mod home;
pub(crate) mod invitations;
pub(crate) mod invoices;
pub(crate) mod notifications;
pub(crate) mod resets;
mod session_cookie;
pub(crate) mod sessions;
pub(crate) mod totp;
mod view;

use crate::management::app_state::AppState;
use axum::Router;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

/// Wraps `pages` in the layers of every page: the check of forms, and the session.
pub(crate) fn wrap(pages: Router<Arc<AppState>>, app: &Arc<AppState>) -> Router<Arc<AppState>> {
    pages
        .route_layer(from_fn_with_state(app.clone(), session_cookie::authenticate))
        .route_layer(from_fn_with_state(app.clone(), guard::check))
}

#[cfg(test)]
mod tests;

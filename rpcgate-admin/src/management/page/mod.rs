//! The pages for people, at the root of the management listener: the HTML interface of the actions, as
//! [`api`](super::api) is their JSON interface.
//!
//! Pages link to each other by relative paths, so that they can be served below a path of the dashboard's host. Only
//! the registration page needs a script, because the browser has to solve its challenge. How a page is written stands in
//! `docs/dashboard.md`.

pub(crate) mod accounts;
pub(crate) mod assets;
mod chart;
pub(crate) mod confirm;
pub(crate) mod context;
mod cookies;
pub(crate) mod done;
pub(crate) mod emails;
pub(crate) mod factors;
pub(crate) mod filters;
pub(crate) mod form;
pub(crate) mod frame;
mod guard;
pub(crate) mod home;
pub(crate) mod invitations;
pub(crate) mod invoices;
pub(crate) mod missing;
pub(crate) mod notifications;
mod offer;
pub(crate) mod parts;
pub(crate) mod problems;
pub(crate) mod resets;
mod session_cookie;
pub(crate) mod sessions;
pub(crate) mod theme;
pub(crate) mod totp;
pub(crate) mod usage;
mod usage_parts;
pub(crate) mod view;
mod way;

use crate::management::app_state::AppState;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use std::sync::Arc;

/// All pages. Each module declares its own.
fn pages() -> Router<Arc<AppState>> {
    Router::new()
        .merge(accounts::routes())
        .merge(emails::routes())
        .merge(factors::routes())
        .merge(home::routes())
        .merge(invitations::routes())
        .merge(notifications::routes())
        .merge(resets::routes())
        .merge(sessions::routes())
        .merge(theme::routes())
        .merge(totp::routes())
        .merge(usage::routes())
}

/// All pages, in the layers that every page has: what browsers may load, errors in the frame, the check of forms, and
/// the session.
pub(crate) fn routes(app: &Arc<AppState>) -> Router<Arc<AppState>> {
    pages()
        .route_layer(from_fn_with_state(app.clone(), session_cookie::authenticate))
        .route_layer(from_fn_with_state(app.clone(), guard::check))
        .route_layer(from_fn_with_state(app.clone(), view::present))
        .route_layer(from_fn(guard::protect))
        .route("/static/{name}", get(assets::get))
}

#[cfg(test)]
pub(crate) mod tests;

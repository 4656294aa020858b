//! The pages for people, at the root of the management listener: the HTML interface of the
//! [actions](rpcgate_management::action).
//!
//! Pages link to each other by relative paths, so that they can be served below a path of the dashboard's host. Only
//! the registration page needs a script, because the browser has to solve its challenge. `docs/dashboard.md` describes
//! how to write a page.

pub(crate) mod access_tokens;
pub(crate) mod accounts;
pub(crate) mod assets;
pub(crate) mod audit;
mod background_request;
pub(crate) mod billing;
pub(crate) mod billing_details;
pub(crate) mod call_snippet;
pub(crate) mod chain_events;
pub(crate) mod chains;
mod chart;
pub(crate) mod checkouts;
pub(crate) mod confirm;
pub(crate) mod context;
mod cookies;
mod cursor;
pub(crate) mod cut_list;
pub(crate) mod deliveries;
pub(crate) mod emails;
pub(crate) mod explain;
mod factor_fields;
pub(crate) mod factors;
pub(crate) mod filters;
pub(crate) mod form;
pub(crate) mod frame;
mod free_plan_offer;
mod guard;
pub(crate) mod home;
pub(crate) mod invitations;
pub(crate) mod invoices;
pub(crate) mod keys;
pub(crate) mod limit_requests;
pub(crate) mod me;
pub(crate) mod members;
mod multipart;
pub(crate) mod next_invoice;
pub(crate) mod not_found;
pub(crate) mod notification_preferences;
pub(crate) mod notifications;
pub(crate) mod operator;
pub(crate) mod outcome;
pub(crate) mod parts;
pub(crate) mod passkeys;
mod permit;
pub(crate) mod plans;
pub(crate) mod problems;
pub(crate) mod projects;
pub(crate) mod quotas;
pub(crate) mod recovery_codes;
mod relative_address;
pub(crate) mod resets;
pub(crate) mod security;
mod session_cookie;
pub(crate) mod sessions;
pub(crate) mod step_up;
mod submission_ids;
pub(crate) mod submissions;
pub(crate) mod subscriptions;
pub(crate) mod theme;
pub(crate) mod ticket_attachments;
pub(crate) mod ticket_comments;
mod ticket_thread;
pub(crate) mod tickets;
pub(crate) mod totp;
pub(crate) mod usage;
mod usage_parts;
mod utc_field;
pub(crate) mod verifying;
mod versions;
pub(crate) mod view;
pub(crate) mod webhooks;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use rpcgate_management::app_state::AppState;
use rpcgate_management::routing::get;
use std::sync::Arc;

/// Returns the value of the cookie `name` that a browser sends, for the fuzz targets in `tests/fuzz`.
#[cfg(fuzzing)]
pub fn cookie_value<'h>(headers: &'h http::HeaderMap, name: &str) -> Option<&'h str> {
    cookies::of_name(headers, name)
}

fn pages() -> Router<Arc<AppState>> {
    Router::new()
        .merge(access_tokens::routes())
        .merge(accounts::routes())
        .merge(audit::routes())
        .merge(billing::routes())
        .merge(billing_details::routes())
        .merge(chain_events::routes())
        .merge(chains::routes())
        .merge(checkouts::routes())
        .merge(deliveries::routes())
        .merge(emails::routes())
        .merge(explain::routes())
        .merge(factors::routes())
        .merge(home::routes())
        .merge(invitations::routes())
        .merge(invoices::routes())
        .merge(keys::routes())
        .merge(limit_requests::routes())
        .merge(me::routes())
        .merge(members::routes())
        .merge(next_invoice::routes())
        .merge(notification_preferences::routes())
        .merge(notifications::routes())
        .merge(passkeys::routes())
        .merge(operator::routes())
        .merge(plans::routes())
        .merge(projects::routes())
        .merge(quotas::routes())
        .merge(recovery_codes::routes())
        .merge(resets::routes())
        .merge(security::routes())
        .merge(sessions::routes())
        .merge(step_up::routes())
        .merge(submissions::routes())
        .merge(subscriptions::routes())
        .merge(theme::routes())
        .merge(ticket_attachments::routes())
        .merge(ticket_comments::routes())
        .merge(tickets::routes())
        .merge(totp::routes())
        .merge(usage::routes())
        .merge(webhooks::routes())
}

/// Adds all pages to `router`, and an answer for each path and method that none of its routes has.
pub fn with_pages(router: Router<Arc<AppState>>, app: &Arc<AppState>) -> Router<Arc<AppState>> {
    router.merge(routes(app)).fallback(not_found::no_path).method_not_allowed_fallback(not_found::no_method)
}

/// Returns the routes of all pages, with their common layers: the limits on what browsers may load, errors in the
/// frame, the check of forms, the session, and the memory of submitted forms.
fn routes(app: &Arc<AppState>) -> Router<Arc<AppState>> {
    pages()
        .route_layer(from_fn_with_state(app.clone(), submissions::once))
        .route_layer(from_fn_with_state(app.clone(), session_cookie::authenticate))
        .route_layer(from_fn_with_state(app.clone(), guard::check))
        .route_layer(from_fn_with_state(app.clone(), view::present))
        .route_layer(from_fn(guard::protect))
        .route("/static/{name}", get(assets::get))
}

#[cfg(test)]
mod testing;
#[cfg(test)]
pub(crate) mod tests;

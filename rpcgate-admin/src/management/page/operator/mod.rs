//! The pages of operators.

mod audit;
mod invoice;
mod invoices;
mod limit_requests;
mod names;
mod overview;
mod quotas;
mod tenant;
mod tenant_state;
mod tenants;
mod ticket;
mod tickets;
mod user;
mod users;

use crate::management::app_state::AppState;
use axum::Router;
use std::sync::Arc;

/// The pages.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .merge(audit::routes())
        .merge(invoice::routes())
        .merge(invoices::routes())
        .merge(limit_requests::routes())
        .merge(overview::routes())
        .merge(quotas::routes())
        .merge(tenant::routes())
        .merge(tenant_state::routes())
        .merge(tenants::routes())
        .merge(ticket::routes())
        .merge(tickets::routes())
        .merge(user::routes())
        .merge(users::routes())
}

#[cfg(test)]
mod desk;

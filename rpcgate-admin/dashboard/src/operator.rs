//! The pages of operators.

mod audit;
mod chains;
mod config_versions;
mod contracts;
mod figures;
mod invoice;
mod invoices;
mod limit_requests;
mod names;
mod nodes;
mod overview;
mod plans;
mod quotas;
mod tenant;
mod tenant_state;
mod tenants;
mod ticket;
mod tickets;
mod user;
mod users;
mod weights;
mod what_if;

use axum::Router;
use rpcgate_management::app_state::AppState;
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .merge(audit::routes())
        .merge(chains::routes())
        .merge(config_versions::routes())
        .merge(contracts::routes())
        .merge(invoice::routes())
        .merge(invoices::routes())
        .merge(limit_requests::routes())
        .merge(nodes::routes())
        .merge(overview::routes())
        .merge(plans::routes())
        .merge(quotas::routes())
        .merge(tenant::routes())
        .merge(tenant_state::routes())
        .merge(tenants::routes())
        .merge(ticket::routes())
        .merge(tickets::routes())
        .merge(user::routes())
        .merge(users::routes())
        .merge(weights::routes())
}

#[cfg(test)]
mod tests;

//! The pages of operators about the gateway: weights, plans, contracts, chains and nodes.

mod chains;
mod contracts;
mod figures;
mod nodes;
mod plans;
mod weights;
mod what_if;

use crate::management::app_state::AppState;
use axum::Router;
use std::sync::Arc;

/// The pages.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .merge(chains::routes())
        .merge(contracts::routes())
        .merge(nodes::routes())
        .merge(plans::routes())
        .merge(weights::routes())
}

#[cfg(test)]
mod tests;

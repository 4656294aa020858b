//! Routes of contracts, which override values of a tenant's plan.

use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::shape::contracts::ContractJson;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use std::sync::Arc;

/// List the contracts of a tenant
///
/// Oldest first, including those that have not begun and those that ended in the last 400 days.
#[utoipa::path(get, path = "/tenants/{id}/contracts", operation_id = "list_contracts", tag = "tenants",
    params(Page),
    responses((status = 200, description = "All contracts.", body = [ContractJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(tenant): Id<TenantId>,
) -> Result<ListPage<ContractJson>, ActionError> {
    let contracts = action::contracts::list(&app, &actor, tenant).await?;
    page.of(contracts.into_iter().map(ContractJson::from).collect(), false, |one| &one.id)
}

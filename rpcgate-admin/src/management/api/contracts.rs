//! Routes of contracts, which override values of a tenant's plan.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use crate::management::shape::contracts::ContractJson;
use crate::management::shape::list::{ListPage, Page, PageRequest};
use axum::extract::State;
use rpcgate_core::caller::TenantId;
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

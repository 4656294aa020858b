//! Routes of contracts with tenants.

use crate::api::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::operator::contracts::NewContract;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, Ids};
use rpcgate_management::shape::contracts::ContractJson;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::moment::Moment;
use rpcgate_management::shape::operator::contracts::{ContractEnd, NewContractJson};
use rpcgate_store::{ContractId, Versioned};
use std::sync::Arc;

/// Create a contract with a tenant
///
/// Gateways apply its values within a second of its start, and those of the plan within a second of its end. A tenant
/// can have 100 contracts, including those that ended in the last 400 days.
#[utoipa::path(post, path = "/operator/tenants/{id}/contracts", operation_id = "operator_create_contract",
    tag = "operator",
    request_body = NewContractJson,
    responses((status = 201, description = "The contract.", body = ContractJson),
        (status = 409, description = "The tenant has the maximum number of contracts.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(tenant): Id<TenantId>,
    Body(new): Body<NewContractJson>,
) -> Result<(StatusCode, Json<ContractJson>), ActionError> {
    let NewContractJson { figures, from, until, note } = new;
    let from = from.map(|Moment(time)| time);
    let until = until.map(|Moment(time)| time);
    let new = NewContract { figures: figures.figures()?, from, until, note: note.unwrap_or_default() };
    let contract = action::operator::contracts::create(&app, &actor, tenant, new).await?;
    Ok((StatusCode::CREATED, Json(contract.into())))
}

/// List the contracts with a tenant
///
/// Oldest first, including those that have not begun and those that ended in the last 400 days.
#[utoipa::path(get, path = "/operator/tenants/{id}/contracts", operation_id = "operator_list_contracts",
    tag = "operator",
    params(Page),
    responses((status = 200, description = "All contracts.", body = [ContractJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Id(tenant): Id<TenantId>,
) -> Result<ListPage<ContractJson>, ActionError> {
    let contracts = action::operator::contracts::list(&app, tenant).await?;
    page.of(contracts.into_iter().map(ContractJson::from).collect(), false, |one| &one.id)
}

/// Read a contract
#[utoipa::path(get, path = "/operator/tenants/{id}/contracts/{contract_id}",
    operation_id = "operator_get_contract", tag = "operator",
    responses((status = 200, description = "The contract.", body = ContractJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    Ids(tenant, id): Ids<TenantId, ContractId>,
) -> Result<Tagged<ContractJson>, ActionError> {
    let version = current(&app, Versioned::Contract(tenant, id)).await?;
    Ok(Tagged::new(version, action::operator::contracts::get(&app, tenant, id).await?.into()))
}

/// Change the end of a contract
///
/// Its values cannot be changed: create another contract instead. Gateways apply the change within a second.
#[utoipa::path(put, path = "/operator/tenants/{id}/contracts/{contract_id}",
    operation_id = "operator_update_contract", tag = "operator",
    params(IfMatchHeader),
    request_body = ContractEnd,
    responses((status = 200, description = "The contract as it is now.", body = ContractJson),
        (status = 409, description = "It has ended, or would end before it begins.")))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(tenant, id): Ids<TenantId, ContractId>,
    Body(ContractEnd { until }): Body<ContractEnd>,
) -> Result<Json<ContractJson>, ActionError> {
    let until = until.map(|Moment(time)| time);
    Ok(Json(action::operator::contracts::update(&app, &actor, tenant, id, until).await?.into()))
}

/// End a contract
///
/// The contract ends at once. A contract that has not begun is deleted. Gateways apply it within a second.
#[utoipa::path(delete, path = "/operator/tenants/{id}/contracts/{contract_id}",
    operation_id = "operator_end_contract", tag = "operator",
    params(IfMatchHeader),
    responses((status = 204, description = "It has ended."), (status = 409, description = "It has ended already.")))]
pub async fn end(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(tenant, id): Ids<TenantId, ContractId>,
) -> Result<StatusCode, ActionError> {
    action::operator::contracts::end(&app, &actor, tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

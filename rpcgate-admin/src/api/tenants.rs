//! Routes of the caller's tenant.

use super::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::plans::PlanNames;
use rpcgate_management::action::tenants::TenantUpdate;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::tenants::{TenantJson, TenantProfileChange, TenantProfileJson};
use rpcgate_store::Versioned;
use std::sync::Arc;

/// List the caller's tenants
///
/// Always exactly one.
#[utoipa::path(get, path = "/tenants", operation_id = "list_tenants", tag = "tenants",
    params(Page),
    responses((status = 200, description = "The caller's tenant.", body = [TenantJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
) -> Result<ListPage<TenantJson>, ActionError> {
    let tenants = action::tenants::list(&app, &actor).await?;
    let names = PlanNames::read(&app).await?;
    page.of(tenants.into_iter().map(|tenant| TenantJson::of(tenant, &names)).collect(), false, |one| &one.id)
}

/// Read a tenant
#[utoipa::path(get, path = "/tenants/{id}", operation_id = "get_tenant", tag = "tenants",
    responses((status = 200, description = "The tenant.", body = TenantProfileJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
) -> Result<Tagged<TenantProfileJson>, ActionError> {
    let version = current(&app, Versioned::Tenant(id)).await?;
    let tenant = action::tenants::get(&app, &actor, id).await?;
    Ok(Tagged::new(version, TenantProfileJson::read(&app, &actor, tenant).await?))
}

/// Change the name of a tenant and its details on invoices
///
/// Issued invoices do not change.
#[utoipa::path(put, path = "/tenants/{id}", operation_id = "update_tenant", tag = "tenants",
    params(IfMatchHeader),
    request_body = TenantProfileChange,
    responses((status = 200, description = "The tenant as it is now.", body = TenantProfileJson)))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    Body(change): Body<TenantProfileChange>,
) -> Result<Json<TenantProfileJson>, ActionError> {
    let TenantProfileChange { name, billing_name, billing_address, billing_tax_id } = change;
    if name.is_none() && billing_name.is_none() && billing_address.is_none() && billing_tax_id.is_none() {
        return Err(ActionError::invalid("at least one field must be given"));
    }
    let update = TenantUpdate { name, billing_name, billing_address, billing_tax_id };
    let tenant = action::tenants::update(&app, &actor, id, update).await?;
    Ok(Json(TenantProfileJson::read(&app, &actor, tenant).await?))
}

#[cfg(test)]
mod tests;

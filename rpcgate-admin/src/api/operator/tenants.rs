//! Every tenant.

use crate::action;
use crate::action::actor::Actor;
use crate::api::list::{Page, Part, Told};
use crate::api::tenants::{Tenant, TenantStatus, Tier};
use crate::error::ActionError;
use crate::extract::{Asked, Body, Id};
use crate::house::House;
use axum::Json;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Which tenants are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Wanted {
    /// Those that follow this one.
    pub after: Option<String>,
}

/// What changes about a tenant. What is left out stays.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantChange {
    /// Whether its calls are served.
    pub status: Option<TenantStatus>,
    /// Its plan.
    pub tier: Option<Tier>,
}

/// List all tenants
///
/// In the order of their identifiers, which is about the order they were made in. `after` is an identifier to
/// begin behind, as a `cursor` is.
#[utoipa::path(get, path = "/operator/tenants", operation_id = "operator_list_tenants", tag = "operator",
    params(("after" = Option<String>, Query, format = "uuid", description = "Tell those that follow this one."),
        Page),
    responses((status = 200, description = "The tenants.", body = [Tenant])))]
pub async fn list(
    State(house): State<Arc<House>>,
    part: Part,
    Asked(wanted): Asked<Wanted>,
) -> Result<Told<Tenant>, ActionError> {
    let after = wanted.after.map(|after| after.parse());
    let after = after.transpose().map_err(|_| ActionError::Invalid("`after` must be a UUID".into()))?;
    let after = part.read(|cursor| cursor.parse().ok())?.or(after);
    let tenants = action::operator::tenants::list(&house, after, part.limit).await?;
    let last = tenants.last().filter(|_| tenants.len() as u64 == part.limit);
    let next = last.map(|last| last.id.to_string());
    Ok(part.told(tenants, next).map(Tenant::from))
}

/// Suspend a tenant or move it to another plan
///
/// Gateways go by it within a second.
#[utoipa::path(put, path = "/operator/tenants/{id}", operation_id = "operator_update_tenant", tag = "operator",
    params(("id" = String, Path, format = "uuid", description = "The tenant.")),
    request_body = TenantChange,
    responses((status = 200, description = "The tenant as it is now.", body = Tenant)))]
pub async fn update(
    State(house): State<Arc<House>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    Body(change): Body<TenantChange>,
) -> Result<Json<Tenant>, ActionError> {
    let suspended = change.status.map(|status| status == TenantStatus::Suspended);
    let tier = change.tier.map(Into::into);
    Ok(Json(action::operator::tenants::update(&house, &actor, id, suspended, tier).await?.into()))
}

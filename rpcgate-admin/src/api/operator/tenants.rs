//! Every tenant.

use crate::action;
use crate::action::actor::Actor;
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

/// The most entries of a list.
const MOST: u32 = 1_000;

/// How many entries of a list are told.
///
/// # Errors
/// [`ActionError::Invalid`].
pub(super) fn limit(asked: Option<u32>) -> Result<u64, ActionError> {
    match asked.unwrap_or(MOST) {
        limit @ 1..=MOST => Ok(limit.into()),
        _ => Err(ActionError::Invalid(format!("`limit` must be a number from 1 to {MOST}"))),
    }
}

/// Which tenants are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Page {
    /// Those that follow this one.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
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
/// In the order of their identifiers, which is about the order they were made in. For more than one page, `after` is the
/// last identifier of the page before.
#[utoipa::path(get, path = "/operator/tenants", operation_id = "operator_list_tenants", tag = "operator",
    params(("after" = Option<String>, Query, format = "uuid", description = "Tell those that follow this one."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "How many, 1 to 1,000, which is the default.")),
    responses((status = 200, description = "The tenants.", body = [Tenant])))]
pub async fn list(
    State(house): State<Arc<House>>,
    Asked(page): Asked<Page>,
) -> Result<Json<Vec<Tenant>>, ActionError> {
    let after = page.after.map(|after| after.parse());
    let after = after.transpose().map_err(|_| ActionError::Invalid("`after` must be a UUID".into()))?;
    let tenants = action::operator::tenants::list(&house, after, limit(page.limit)?).await?;
    Ok(Json(tenants.into_iter().map(Tenant::from).collect()))
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

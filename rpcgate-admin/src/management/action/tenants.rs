//! The caller's tenant.

use super::actor::Actor;
use super::text;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{Tenant, TenantChange, Versioned};
use rpcgate_core::caller::TenantId;

const UNKNOWN: ActionError = ActionError::NotFound("tenant");

/// The caller's tenant, if it is the requested one.
///
/// # Errors
/// [`ActionError::NotFound`] for every other tenant, whether it exists or not.
pub(super) fn own_tenant(actor: &Actor, requested: TenantId) -> Result<TenantId, ActionError> {
    let tenant = actor.tenant()?;
    if tenant == requested { Ok(tenant) } else { Err(UNKNOWN) }
}

/// The tenants that the caller belongs to, which is always one.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<Tenant>, ActionError> {
    Ok(app.store.tenant(actor.tenant()?).await?.into_iter().collect())
}

/// The caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another one.
pub async fn get(app: &AppState, actor: &Actor, id: TenantId) -> Result<Tenant, ActionError> {
    app.store.tenant(own_tenant(actor, id)?).await?.ok_or(UNKNOWN)
}

/// Renames the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Invalid`] for an invalid name.
pub async fn rename(app: &AppState, actor: &Actor, id: TenantId, name: &str) -> Result<Tenant, ActionError> {
    let (tenant, now) = (own_tenant(actor, id)?, app.now());
    let name = text::name("name", name)?;
    let store = actor.audited_store(&app.store, Some(tenant), ("tenant.renamed", tenant, &name), now);
    let change = TenantChange { name: Some(name), ..TenantChange::default() };
    Ok(actor.expecting(&store, Versioned::Tenant(tenant)).update_tenant(tenant, &change, now).await?)
}

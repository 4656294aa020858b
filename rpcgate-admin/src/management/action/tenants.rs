//! The caller's tenant.

use super::actor::Actor;
use super::text;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{Tenant, TenantChange};
use rpcgate_core::caller::TenantId;

const UNKNOWN: ActionError = ActionError::NotFound("tenant");

/// The tenant that the caller belongs to, if it is the one that is asked for.
///
/// # Errors
/// [`ActionError::NotFound`] for every other one, whether it exists or not.
pub(super) fn own(actor: &Actor, asked: TenantId) -> Result<TenantId, ActionError> {
    let tenant = actor.tenant()?;
    if tenant == asked { Ok(tenant) } else { Err(UNKNOWN) }
}

/// The tenants that the caller belongs to: one.
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
    app.store.tenant(own(actor, id)?).await?.ok_or(UNKNOWN)
}

/// Gives the caller's tenant another name.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Invalid`] for a name that is none.
pub async fn rename(app: &AppState, actor: &Actor, id: TenantId, name: &str) -> Result<Tenant, ActionError> {
    let (tenant, now) = (own(actor, id)?, app.now());
    let name = text::name("name", name)?;
    let noting = actor.noting(&app.store, Some(tenant), ("tenant.renamed", tenant, &name), now);
    let change = TenantChange { name: Some(name), ..TenantChange::default() };
    Ok(noting.update_tenant(tenant, &change, now).await?)
}

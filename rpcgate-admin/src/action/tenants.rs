//! The caller's tenant.

use super::actor::Actor;
use super::text;
use crate::error::ActionError;
use crate::house::House;
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
/// [`ActionError::Away`].
pub async fn list(house: &House, actor: &Actor) -> Result<Vec<Tenant>, ActionError> {
    Ok(house.store.tenant(actor.tenant()?).await?.into_iter().collect())
}

/// The caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another one.
pub async fn get(house: &House, actor: &Actor, id: TenantId) -> Result<Tenant, ActionError> {
    house.store.tenant(own(actor, id)?).await?.ok_or(UNKNOWN)
}

/// Gives the caller's tenant another name.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Invalid`] for a name that is none.
pub async fn rename(house: &House, actor: &Actor, id: TenantId, name: &str) -> Result<Tenant, ActionError> {
    let (tenant, now) = (own(actor, id)?, house.now());
    let name = text::name("name", name)?;
    let noting = actor.noting(&house.store, Some(tenant), ("tenant.renamed", tenant, &name), now);
    let change = TenantChange { name: Some(name), ..TenantChange::default() };
    Ok(noting.update_tenant(tenant, &change, now).await?)
}

//! The contracts of the caller's tenant, as operators made them.

use super::actor::Actor;
use super::tenants::own_tenant;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_store::TenantContract;

/// Lists the contracts of the caller's tenant, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
) -> Result<Vec<TenantContract>, ActionError> {
    Ok(app.store.contracts(own_tenant(actor, tenant)?).await?)
}

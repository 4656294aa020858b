//! A tenant's policy on second factors: an owner may require one of all members.

use super::actor::Actor;
use super::audit;
use super::tenants::own_tenant;
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use rpcgate_core::caller::TenantId;
use std::sync::Arc;

/// Returns whether the members of the caller's tenant need a second factor.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Unavailable`].
pub async fn get(app: &AppState, actor: &Actor, id: TenantId) -> Result<bool, ActionError> {
    Ok(app.store.requires_factor(own_tenant(actor, id)?).await?)
}

/// Sets whether the members of the caller's tenant need a second factor. Members who logged in without one can then
/// only add one. Callers cannot require a factor that they lack, because this would lock them out too. Ending the
/// requirement needs a proof.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant; [`ActionError::Conflict`] if the caller has no second factor;
/// [`ErrorCode::ProofRequired`](crate::error::ErrorCode::ProofRequired); [`ActionError::Unavailable`].
pub async fn put(
    app: &AppState,
    session: &AuthSession,
    client: &Client,
    id: TenantId,
    is_required: bool,
) -> Result<bool, ActionError> {
    let actor = Actor::of_page(Arc::clone(&session.user), client);
    let tenant = own_tenant(&actor, id)?;
    if is_required && !session.satisfies_factor(app).await? {
        return Err(ActionError::Conflict("add a second factor to your own account first"));
    }
    if !is_required && !session.has_proof(app.now()) {
        return Err(ActionError::PROOF_REQUIRED);
    }
    let action = if is_required { "tenant.mfa_required" } else { "tenant.mfa_optional" };
    let entry = audit::entry(session, client, action, tenant.to_string(), app.now());
    app.store.with_audit_entry(entry).set_requires_factor(tenant, is_required).await?;
    Ok(is_required)
}

//! The users of all tenants, and the operators.

use crate::action::actor::Actor;
use crate::action::resets::{RESET_LIFE, reset_mail};
use crate::action::{security, text};
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::identity::refresh::{Opaque, OpaqueKind};
use crate::mail::{self, SecurityEvent};
use rpcgate_store::{Account, AccountFilter, Digest, UserId};
use std::sync::Arc;

/// Lists at most `limit` accounts by ascending identifier, after `after` if it is given.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    filter: &AccountFilter,
    after: Option<UserId>,
    limit: u64,
) -> Result<Vec<Account>, ActionError> {
    Ok(app.store.accounts(filter, after, limit, app.now()).await?)
}

/// Returns an account.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn get(app: &AppState, id: UserId) -> Result<Account, ActionError> {
    Ok(app.store.account(id, app.now()).await?)
}

/// Ends the locks caused by wrong passwords and second factors.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn unlock(app: &AppState, actor: &Actor, id: UserId) -> Result<Account, ActionError> {
    let entry = actor.entry(None, ("user.unlocked", id, ""), app.now());
    Ok(app.store.unlock_account(id, &entry).await?)
}

/// Removes the password of an account, ends its sessions, withdraws its open invitations, and mails it a link for
/// setting a new password. The operator needs a proof.
///
/// # Errors
/// [`ErrorCode::ProofRequired`](crate::error::ErrorCode::ProofRequired), [`ActionError::NotFound`],
/// [`ActionError::Conflict`] if it is disabled, [`ActionError::Unavailable`].
pub async fn reset(app: &Arc<AppState>, actor: &Actor, id: UserId) -> Result<Account, ActionError> {
    actor.expect_proof()?;
    let now = app.now();
    let token = Opaque::make(OpaqueKind::Reset)?;
    let hash = Digest(token.hash().0);
    let expires_at = now.plus(RESET_LIFE);
    let entry = actor.entry(None, ("user.reset", id, ""), now);
    let account = app.store.reset_account(id, &hash, expires_at, &entry).await?;
    let account = account.ok_or(ActionError::Conflict("the user is disabled"))?;
    let email = mail::address(&account.user.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    app.mails.send(&reset_mail(app, email, &token), now).await?;
    Ok(account)
}

/// Removes all second factors of a user who has lost them, and ends the user's sessions. The user is notified by mail
/// and by a notification with the `reason`.
///
/// # Errors
/// [`ActionError::Invalid`] for an invalid reason; [`ActionError::NotFound`]; [`ActionError::Conflict`] for the
/// operator's own account, so that a stolen session of an operator does not suffice, and for a user without a second
/// factor; [`ActionError::Unavailable`].
pub async fn remove_factors(
    app: &AppState,
    actor: &Actor,
    id: UserId,
    reason: &str,
) -> Result<Account, ActionError> {
    let reason = text::prose("reason", reason)?;
    if actor.user.id == id {
        return Err(ActionError::Conflict("another operator has to remove your own second factors"));
    }
    let entry = actor.entry(None, ("user.factors_removed", id, &reason), app.now());
    let account = app.store.remove_factors(id, &entry).await?;
    let account = account.ok_or(ActionError::Conflict("the user has no second factor"))?;
    let event = SecurityEvent::FactorsReset { reason: &reason };
    security::notify(app, &account.user, event, actor.address).await;
    Ok(account)
}

/// Disables an account, which ends its sessions and prevents log-ins, or enables it again. Notifies its user about a
/// change. The keys of its tenant keep working, because they belong to the tenant. The operator needs a proof.
///
/// # Errors
/// [`ErrorCode::ProofRequired`](crate::error::ErrorCode::ProofRequired); [`ActionError::NotFound`];
/// [`ActionError::Conflict`] for the operator's own account, so that an operator remains who can enable it;
/// [`ActionError::Unavailable`].
pub async fn disable(
    app: &AppState,
    actor: &Actor,
    id: UserId,
    is_disabled: bool,
) -> Result<Account, ActionError> {
    actor.expect_proof()?;
    if actor.user.id == id {
        return Err(ActionError::Conflict("you cannot disable your own account"));
    }
    let action = if is_disabled { "user.disabled" } else { "user.enabled" };
    let entry = actor.entry(None, (action, id, ""), app.now());
    let (account, has_changed) = app.store.disable_account(id, is_disabled, &entry).await?;
    if has_changed {
        let event = if is_disabled { SecurityEvent::Disabled } else { SecurityEvent::Enabled };
        security::notify(app, &account.user, event, actor.address).await;
    }
    Ok(account)
}

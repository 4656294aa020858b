//! Recovery codes, which replace a lost second factor.

use super::factors::{GivenFactor, accept, prove, to_the_end};
use super::{audit, security};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::mail::SecurityEvent;
use rpcgate_config::Secret;
use std::sync::Arc;

/// Replaces all recovery codes, which needs a factor. The new codes are shown once.
///
/// # Errors
/// [`ActionError::Conflict`] if the user has no second factor;
/// `ErrorCode::FactorWrong` if the factor is wrong or was used
/// before; `ErrorCode::AccountLocked` after too many wrong ones;
/// [`ActionError::Unavailable`].
pub async fn renew(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: &GivenFactor,
    client: &Client,
) -> Result<Vec<Secret>, ActionError> {
    let user = session.user.clone();
    let now = app.now();
    if !app.store.factors(user.id).await?.any() {
        return Err(ActionError::Conflict("recovery codes need a second factor: add one first"));
    }
    let proof = prove(app, session, given, client, now).await?;
    let (codes, hashes): (Vec<_>, Vec<_>) = app.recovery_codes.make(user.id)?.into_iter().unzip();
    let entry = audit::entry(session, client, "recovery_codes.renewed", user.id.to_string(), now);
    let app = app.clone();
    let session = session.clone();
    let client = client.clone();
    to_the_end(async move {
        let is_done = app.store.renew_recovery_codes(user.id, &proof.used, &hashes, &entry).await?;
        accept(&app, &proof, is_done, &session, &client, now).await?;
        security::notify(&app, &user, SecurityEvent::RecoveryCodesRenewed, client.address).await;
        Ok(codes)
    })
    .await
}

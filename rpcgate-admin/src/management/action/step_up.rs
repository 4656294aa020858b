//! Giving a second factor again in a session: before keys are shown and before factors are added, so that a browser that
//! was left open is not enough.

use super::audit;
use super::factors::{GivenFactor, accept, is_recent, prove, to_the_end};
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use std::sync::Arc;

/// Whether the user of a session has to give a factor again. A user without one has none to give.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn is_needed(app: &AppState, session: &AuthSession) -> Result<bool, ActionError> {
    Ok(!is_recent(session, app.now()) && app.store.factors(session.user.id).await?.any())
}

/// Gives a factor again.
///
/// # Errors
/// [`ActionError::Forbidden`] if it is wrong or was used before, or after too many wrong ones;
/// [`ActionError::Unavailable`].
pub async fn give(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: &GivenFactor,
    client: &Client,
) -> Result<(), ActionError> {
    let now = app.now();
    let proof = prove(app, session, given, client, now).await?;
    let entry = audit::entry(session, client, "factor.given", session.user.id.to_string(), now);
    let (app, session, client) = (app.clone(), session.clone(), client.clone());
    to_the_end(async move {
        let whose = (session.user.id, session.id);
        let is_done = app.store.give_factor(whose, &proof.used, &entry).await?;
        accept(&app, &proof, is_done, (&session, &client), now).await
    })
    .await
}

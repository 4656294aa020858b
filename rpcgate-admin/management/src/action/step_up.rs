//! Step-up authentication: the user must prove again to be the account's owner before a sensitive action, which a
//! stolen token or an unattended browser must not be able to perform.
//!
//! There are two rules. A change of who may log in to an account or a tenant needs a proof, the password or a second
//! factor, given in the session in the last ten minutes; otherwise a token that is valid for 15 minutes would give
//! permanent access to the account. Actions with an [`Actor`](super::actor::Actor) check it by
//! [`Actor::expect_proof`](super::actor::Actor::expect_proof). In addition, pages that show a key ask users who have a
//! second factor for it.

use super::audit;
use super::factors::{GivenFactor, accept, expect_proof, is_recent, prove, to_the_end};
use super::me::check_password;
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::identity::password::Typed;
use std::sync::Arc;

/// A submitted proof.
#[derive(Clone, Debug)]
pub enum GivenProof {
    /// The password of the account.
    Password(Typed),
    /// A second factor of the account.
    Factor(GivenFactor),
}

/// Returns whether the user of a session must give a factor again. It is false for a user without factors.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn is_needed(app: &AppState, session: &AuthSession) -> Result<bool, ActionError> {
    Ok(!is_recent(session, app.now()) && app.store.factors(session.user.id).await?.any())
}

/// Accepts a proof, which is valid for ten minutes, and returns the updated session.
///
/// # Errors
/// `ActionError::Refused` if it is wrong or was used before, or after too many wrong ones;
/// [`ActionError::Unavailable`].
pub async fn give(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: GivenProof,
    client: &Client,
) -> Result<AuthSession, ActionError> {
    match given {
        GivenProof::Password(password) => give_password(app, session, password, client).await,
        GivenProof::Factor(factor) => give_factor(app, session, &factor, client).await,
    }
}

/// Accepts the proof of a request, if it has one, or checks that the session [has one](AuthSession::has_proof). Returns
/// the updated session.
///
/// # Errors
/// [`ErrorCode::ProofRequired`](crate::error::ErrorCode::ProofRequired), and those of [`give`].
pub async fn require(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: Option<GivenProof>,
    client: &Client,
) -> Result<AuthSession, ActionError> {
    match given {
        _ if session.is_of_token() => Ok(session.clone()),
        Some(given) => give(app, session, given, client).await,
        None => expect_proof(session, app.now()).map(|()| session.clone()),
    }
}

/// Accepts the password, if the request has one, and returns the updated session.
///
/// # Errors
/// Those of [`give`].
pub async fn give_if_any(
    app: &Arc<AppState>,
    session: &AuthSession,
    password: Option<Typed>,
    client: &Client,
) -> Result<AuthSession, ActionError> {
    match password {
        Some(password) => give(app, session, GivenProof::Password(password), client).await,
        None => Ok(session.clone()),
    }
}

async fn give_password(
    app: &AppState,
    session: &AuthSession,
    password: Typed,
    client: &Client,
) -> Result<AuthSession, ActionError> {
    let now = app.now();
    check_password(app, session, password, client, now).await?;
    let entry = audit::entry(session, client, "password.given", session.user.id.to_string(), now);
    app.store.note_proof((session.user.id, session.id), &entry).await?;
    Ok(AuthSession { proved_at: Some(now), ..session.clone() })
}

async fn give_factor(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: &GivenFactor,
    client: &Client,
) -> Result<AuthSession, ActionError> {
    let now = app.now();
    let proof = prove(app, session, given, client, now).await?;
    let entry = audit::entry(session, client, "factor.given", session.user.id.to_string(), now);
    let app = app.clone();
    let session = session.clone();
    let client = client.clone();
    to_the_end(async move {
        let whose = (session.user.id, session.id);
        let is_done = app.store.give_factor(whose, &proof.used, &entry).await?;
        accept(&app, &proof, is_done, &session, &client, now).await?;
        Ok(AuthSession { proved_at: Some(now), factor_at: Some(now), ..session })
    })
    .await
}

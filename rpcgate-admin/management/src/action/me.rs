//! Changes to the user's own account.

use super::factors::expect_proof;
use super::sessions::{begin_password_attempt, limit_attempts, reserve_hash, verify};
use super::versions::IfMatch;
use super::{audit, security, text};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::password::Typed;
use crate::mail::SecurityEvent;
use rpcgate_core::clock::Time;
use rpcgate_store::{AttemptKind, Expected, User, Versioned};

/// Changes the user's name, at most a few times in a quarter of an hour, because each change adds an audit entry. The
/// current name is not a change. `expected` are the accepted versions of the profile; `None` accepts any.
///
/// # Errors
/// [`ActionError::Invalid`], [`ErrorCode::PreconditionFailed`], [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn rename(
    app: &AppState,
    session: &AuthSession,
    name: &str,
    expected: Option<&IfMatch>,
    client: &Client,
) -> Result<User, ActionError> {
    let name = text::line("name", name)?;
    let user = &session.user;
    if name == user.name {
        return Ok(User::clone(user));
    }
    limit_attempts(app, AttemptKind::Names(&user.email), app.now()).await?;
    let entry = audit::entry(session, client, "account.renamed", user.id.to_string(), app.now());
    let store = app.store.with_audit_entry(entry);
    let store = match expected {
        Some(IfMatch::OneOf(versions)) => {
            store.expecting(Expected { of: Versioned::Profile(user.id), versions: versions.clone() })
        }
        Some(IfMatch::Any) | None => store,
    };
    store.rename_user(user.id, &name).await?;
    Ok(User { name, ..User::clone(user) })
}

/// Verifies the user's password and returns the stored hash. A wrong password counts as at a log-in, so that a stolen
/// token cannot be used for guessing.
///
/// # Errors
/// [`ErrorCode::PasswordWrong`], or [`ErrorCode::AccountLocked`] after too many wrong ones; [`ActionError::TooMany`]
/// while too many passwords are being verified; [`ActionError::Unavailable`].
pub(super) async fn check_password<'s>(
    app: &AppState,
    session: &'s AuthSession,
    typed: Typed,
    client: &Client,
    now: Time,
) -> Result<&'s str, ActionError> {
    let user = &session.user;
    let ticket = begin_password_attempt(app, AttemptKind::Checks(&user.email), now).await?;
    let permit = reserve_hash(app, &ticket).await?;
    let stored = user.password.as_deref();
    let is_right = verify(app, &ticket, permit, typed, stored).await?;
    if let Some(verified) = stored.filter(|_| is_right) {
        return Ok(verified);
    }
    let entry = audit::entry(session, client, "password.wrong", user.id.to_string(), now);
    app.store.note(&entry).await?;
    if ticket.locks() {
        let event = SecurityEvent::Locked { tries: "wrong passwords in a session of yours" };
        security::notify(app, user, event, client.address).await;
    }
    Err(ActionError::Refused(ErrorCode::PasswordWrong, "the current password is wrong"))
}

/// Changes the user's password and ends all other sessions. The current password can be omitted if the session has a
/// recent proof.
///
/// # Errors
/// [`ErrorCode::ProofRequired`] without a password or a proof; [`ActionError::Invalid`] for an invalid new password;
/// [`ErrorCode::PasswordWrong`] if the current one is wrong, [`ErrorCode::AccountLocked`] after too many wrong ones;
/// [`ActionError::Conflict`] if it was changed at the same time; [`ActionError::TooMany`] while too many passwords are
/// being hashed; [`ActionError::Unavailable`].
pub async fn change_password(
    app: &AppState,
    session: &AuthSession,
    current: Option<Typed>,
    new: Typed,
    client: &Client,
) -> Result<(), ActionError> {
    let now = app.now();
    let user = &session.user;
    if current.is_none() {
        expect_proof(session, now)?;
    }
    let new = new.choose().map_err(|error| ActionError::field("new_password", error))?;
    let verified = match current {
        Some(current) => check_password(app, session, current, client, now).await?,
        None => user.password.as_deref().ok_or(ActionError::PROOF_REQUIRED)?,
    };
    let new = app.passwords.hash(new).await?;
    let entry = audit::entry(session, client, "password.changed", user.id.to_string(), now);
    if !app.store.change_password(user.id, verified, &new, Some(session.id), &entry).await? {
        return Err(ActionError::Conflict("the password was changed in the meantime"));
    }
    security::notify(app, user, SecurityEvent::PasswordChanged, client.address).await;
    Ok(())
}

//! Passkeys: registering and removing them, and logging in with one.

use super::actor::Actor;
use super::ceremonies::{open_once, site, verified_by, void};
use super::factors::{GivenFactor, accept, expect_proof, pending, prove, prove_for_another, to_the_end};
use super::sessions::{DISABLED, SessionTokens, new_session, opened, user_entry};
use super::totp::UNCONFIRMED;
use super::{audit, security, text};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::passkey::{
    CeremonyPurpose, PasskeyAnswer, PasskeyError, RegistrationAnswer, StartedCeremony,
};
use crate::identity::refresh::{Opaque, OpaqueKind};
use crate::mail::SecurityEvent;
use rpcgate_config::Secret;
use rpcgate_core::clock::Time;
use rpcgate_store::{Audit, Digest, LogInMethod, PasskeyId, StoredPasskey, User, UserId, fresh_id};
use std::sync::Arc;

const REFUSED: ActionError = ActionError::Refused(ErrorCode::PasskeyRefused, "the passkey was not accepted");

fn factor_name(name: &str) -> String {
    format!("passkey \"{name}\"")
}

/// Returns the credential identifiers of a user's passkeys.
async fn credentials(app: &AppState, user: UserId) -> Result<Vec<Vec<u8>>, ActionError> {
    let passkeys = app.store.passkeys(user).await?;
    Ok(passkeys.into_iter().map(|passkey| passkey.credential).collect())
}

/// Begins the registration of a passkey. A user who has a second factor must give one, because a passkey can remove the
/// other factors.
///
/// # Errors
/// [`ErrorCode::ProofRequired`] without a recent proof; `ErrorCode::EmailUnconfirmed` before the user's address is
/// confirmed; `ErrorCode::FactorRequired` without a factor; `ErrorCode::FactorWrong`, or
/// `ErrorCode::AccountLocked` after too many wrong ones; [`ActionError::Conflict`] if the service has no host name;
/// [`ActionError::Unavailable`].
pub async fn start_registration(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: Option<GivenFactor>,
    client: &Client,
) -> Result<StartedCeremony, ActionError> {
    let user = session.user.clone();
    let now = app.now();
    let site = site(app)?;
    if user.confirmed_at.is_none() {
        return Err(UNCONFIRMED);
    }
    let missing = "give one of your second factors to add a passkey";
    prove_for_another(app, session, given, missing, client, now).await?;
    let existing = credentials(app, user.id).await?;
    Ok(site.start_registration(&app.sealing, user.id, &user.email, &user.name, existing, now)?)
}

/// A new passkey.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredPasskey {
    /// The passkey.
    pub passkey: StoredPasskey,
    /// New recovery codes, which are shown once, if it is the user's first factor.
    pub recovery_codes: Option<Vec<Secret>>,
}

/// Completes the registration of a passkey. If it is the user's first factor, all other sessions of the user end. The
/// ceremony is void if a factor was added after it began, because that factor was not asked for.
///
/// # Errors
/// [`ActionError::Invalid`] if the name, the ceremony or the credential is not accepted; [`ActionError::Full`] if the
/// user has too many passkeys; [`ActionError::Taken`] if the credential is already registered;
/// [`ActionError::Unavailable`].
pub async fn finish_registration(
    app: &Arc<AppState>,
    session: &AuthSession,
    actor: &Actor,
    ceremony: &str,
    answer: &RegistrationAnswer,
    name: &str,
) -> Result<RegisteredPasskey, ActionError> {
    let user = session.user.clone();
    let now = app.now();
    expect_proof(session, now)?;
    let name = text::name("name", name)?;
    let opened = open_once(app, ceremony, (CeremonyPurpose::Register, Some(user.id)), now).await?;
    let begun_at = opened.begun_at();
    let made = site(app)?.finish_registration(opened, answer).map_err(|error| match error {
        PasskeyError::Broken(_) => ActionError::from(error),
        error => {
            tracing::info!(%error, "a new passkey was not accepted");
            ActionError::named("credential", "was not accepted")
        }
    })?;
    let passkey = StoredPasskey {
        id: PasskeyId(fresh_id(now)),
        user: user.id,
        credential: made.credential,
        name,
        passkey: made.passkey,
        uses: 0,
        created_at: now,
        used_at: None,
    };
    let (codes, hashes): (Vec<_>, Vec<_>) = app.recovery_codes.make(user.id)?.into_iter().unzip();
    let entry = actor.entry(user.tenant, ("passkey.added", passkey.id, ""), now);
    let (app, store, keep, address) = (app.clone(), actor.store(&app.store), session.id, actor.address);
    to_the_end(async move {
        let added = store.add_passkey(&passkey, begun_at, keep, &hashes, &entry).await?;
        let is_first = added.ok_or_else(void)?;
        let added = SecurityEvent::FactorAdded { factor: &factor_name(&passkey.name) };
        security::notify(&app, &user, added, address).await;
        Ok(RegisteredPasskey { passkey, recovery_codes: is_first.then_some(codes) })
    })
    .await
}

/// Lists the user's passkeys, the oldest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, session: &AuthSession) -> Result<Vec<StoredPasskey>, ActionError> {
    Ok(app.store.passkeys(session.user.id).await?)
}

/// Removes a passkey of the user, which needs a factor. All other sessions of the user end.
///
/// # Errors
/// [`ActionError::NotFound`] if the user has no such passkey; `ErrorCode::FactorWrong` if the factor is wrong or was
/// used before, `ErrorCode::AccountLocked` after too many wrong ones; [`ActionError::Unavailable`].
pub async fn remove(
    app: &Arc<AppState>,
    session: &AuthSession,
    id: PasskeyId,
    given: &GivenFactor,
    client: &Client,
) -> Result<(), ActionError> {
    let user = session.user.clone();
    let now = app.now();
    let mut its = app.store.passkeys(user.id).await?.into_iter();
    let passkey = its.find(|passkey| passkey.id == id).ok_or(ActionError::NotFound("passkey"))?;
    let proof = prove(app, session, given, client, now).await?;
    let entry = audit::entry(session, client, "passkey.removed", id.to_string(), now);
    let app = app.clone();
    let session = session.clone();
    let client = client.clone();
    to_the_end(async move {
        let whose = (user.id, session.id);
        let is_done = app.store.remove_passkey(whose, id, &proof.used, &entry).await?;
        accept(&app, &proof, is_done, &session, &client, now).await?;
        let removed = SecurityEvent::FactorRemoved { factor: &factor_name(&passkey.name) };
        security::notify(&app, &user, removed, client.address).await;
        Ok(())
    })
    .await
}

async fn ask(app: &AppState, user: UserId, now: Time) -> Result<StartedCeremony, ActionError> {
    let allowed = credentials(app, user).await?;
    if allowed.is_empty() {
        return Err(ActionError::Conflict("the user has no passkey"));
    }
    Ok(site(app)?.start_log_in(&app.sealing, Some((user, allowed)), now)?)
}

/// Starts a passkey ceremony of the logged-in user, for an action that needs a factor.
///
/// # Errors
/// [`ActionError::Conflict`] if the user has no passkey or the service no host name; [`ActionError::Unavailable`].
pub async fn start_factor(app: &AppState, session: &AuthSession) -> Result<StartedCeremony, ActionError> {
    ask(app, session.user.id, app.now()).await
}

/// Starts a passkey ceremony at a log-in: for the user of the pending log-in `mfa_token`, or without it for any
/// passkey, which logs its user in without a password.
///
/// # Errors
/// `ErrorCode::LogInExpired` if the log-in is no longer pending; [`ActionError::Conflict`] if the user has no passkey
/// or the service no host name; [`ActionError::Unavailable`].
pub async fn start_log_in(app: &AppState, mfa_token: Option<&str>) -> Result<StartedCeremony, ActionError> {
    let now = app.now();
    match mfa_token {
        Some(token) => {
            let (_, user) = pending(app, token, now).await?;
            ask(app, user.id, now).await
        }
        None => Ok(site(app)?.start_log_in(&app.sealing, None, now)?),
    }
}

/// Logs a user in with only a passkey.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one client address; [`ActionError::Invalid`] if the ceremony
/// is invalid, used or expired; `ErrorCode::PasskeyRefused` if the passkey is unknown or not accepted;
/// `ErrorCode::AccountDisabled`; [`ActionError::Unavailable`].
pub async fn finish_log_in(
    app: &Arc<AppState>,
    ceremony: &str,
    answer: &PasskeyAnswer,
    client: &Client,
) -> Result<SessionTokens, ActionError> {
    app.admit_attempt(client.address).await?;
    let now = app.now();
    let opened_ceremony = open_once(app, ceremony, (CeremonyPurpose::LogIn, None), now).await?;
    let found = app.store.passkey_of(answer.credential()).await?;
    let passkey = found.filter(|passkey| answer.names(passkey.user)).ok_or(REFUSED)?;
    let user = app.store.user(passkey.user).await?.ok_or(REFUSED)?;
    let entry = user_entry(&user, client, "passkey.refused", String::new(), now);
    let used = verified_by(app, opened_ceremony, answer, &passkey, entry).await?.ok_or(REFUSED)?;
    let session = new_session(app, &user, LogInMethod::Passkey, client, now);
    let refresh = Opaque::make(OpaqueKind::Refresh)?;
    let entry = Audit {
        detail: LogInMethod::Passkey.as_str().into(),
        ..user_entry(&user, client, "session.opened", session.id.to_string(), now)
    };
    if app.store.open_passkey_session(&session, &Digest(refresh.hash().0), &used, &entry).await? {
        security::note_device(app, &user, client, now).await;
        return opened(app, &user, session.id, &refresh);
    }
    Err(refusal(app, &user).await?)
}

/// Returns the reason why an accepted passkey opens no session.
async fn refusal(app: &AppState, user: &User) -> Result<ActionError, ActionError> {
    let is_disabled = app.store.is_disabled(user.id).await?;
    Ok(if is_disabled { ActionError::Refused(ErrorCode::AccountDisabled, DISABLED) } else { REFUSED })
}

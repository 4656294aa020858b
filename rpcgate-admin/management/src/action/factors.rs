//! Second factors, which a user gives after the password at a log-in, and before a factor is removed.

use super::ceremonies;
use super::sessions::{SessionTokens, begin_password_attempt, new_session, note_failure, opened, user_entry};
use super::{audit, security};
use crate::access::{AuthSession, RECENT};
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::passkey::{CeremonyPurpose, PasskeyAnswer};
use crate::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::identity::sealing::SealedFor;
use crate::identity::totp::TotpSecret;
use crate::mail::SecurityEvent;
use rpcgate_core::clock::Time;
use rpcgate_store::{AttemptKind, AttemptTicket, Audit, Digest, FactorUse, Factors, User};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use tracing::Instrument;

const NOT_PENDING: &str = "the log-in has expired or was finished: log in again";
const WRONG: &str = "the code is wrong or was used before";

/// A submitted factor.
#[derive(Clone)]
pub enum GivenFactor {
    /// A code of an authenticator app.
    Code(String),
    /// A recovery code.
    RecoveryCode(String),
    /// No new factor: one was given recently in the session, which [`step_up`](super::step_up) asks for.
    Recent,
    /// A passkey.
    Passkey {
        /// The token of the ceremony.
        ceremony: String,
        /// The browser's response.
        answer: Box<PasskeyAnswer>,
    },
}

impl fmt::Debug for GivenFactor {
    /// Leaves out the codes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GivenFactor::Code(_) => "Code",
            GivenFactor::RecoveryCode(_) => "RecoveryCode",
            GivenFactor::Recent => "Recent",
            GivenFactor::Passkey { .. } => "Passkey",
        })
    }
}

/// Returns the row that the sealed secret of a user's authenticator app is bound to.
pub(super) fn sealed_for(user: &User) -> SealedFor<'static> {
    SealedFor { table: "totp", row: user.id.0 }
}

/// Completes `work` even if the client disconnects, so that no change is made without its notification.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ActionError>> + Send + 'static,
) -> Result<T, ActionError> {
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("a change ended early: {error}")))?
}

/// Reports whether the user has given a factor in the session recently enough at `now`.
pub(super) fn is_recent(session: &AuthSession, now: Time) -> bool {
    session.factor_at.is_some_and(|at| now.since(at) < RECENT)
}

/// Checks that the user of a session has given a proof in it in the last ten minutes.
///
/// # Errors
/// [`ErrorCode::ProofRequired`].
pub(super) fn expect_proof(session: &AuthSession, now: Time) -> Result<(), ActionError> {
    if session.is_proved(now) { Ok(()) } else { Err(ActionError::PROOF_REQUIRED) }
}

/// Returns the notification if this attempt locks the user's factors.
fn locked_by(ticket: &AttemptTicket) -> Option<SecurityEvent<'static>> {
    ticket.locks().then_some(SecurityEvent::Locked { tries: "wrong second factors" })
}

/// Notifies the user if the used factor is a recovery code, because there are few. The code is used up in any case, so
/// an error is only logged.
async fn notify_of_recovery_code(app: &AppState, user: &User, used: &FactorUse, client: &Client) {
    let FactorUse::RecoveryCode(_) = used else { return };
    match app.store.factors(user.id).await {
        Ok(Factors { recovery_codes: left, .. }) => {
            security::notify(app, user, SecurityEvent::RecoveryCodeUsed { left }, client.address).await;
        }
        Err(error) => {
            tracing::warn!(%error, user = %user.id, "a user could not be notified about a recovery code");
        }
    }
}

/// Returns the user's factors.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn overview(app: &AppState, session: &AuthSession) -> Result<Factors, ActionError> {
    Ok(app.store.factors(session.user.id).await?)
}

/// Verifies a factor and returns the use that the store must record, or `None` if it is not the user's.
async fn verified(
    app: &AppState,
    user: &User,
    given: &GivenFactor,
    client: &Client,
    now: Time,
) -> Result<Option<FactorUse>, ActionError> {
    match given {
        GivenFactor::Code(code) => {
            let stored = app.store.totp(user.id).await?.filter(|totp| totp.activated_at.is_some());
            let Some(totp) = stored else { return Ok(None) };
            let secret = TotpSecret::of(&app.sealing.open(sealed_for(user), &totp.sealed)?, &user.email);
            Ok(secret.step_of(code, now).map(|step| FactorUse::Code { step }))
        }
        GivenFactor::RecoveryCode(code) => {
            let former = app.recovery_codes.former_hashes(user.id, code);
            let found = app.store.recovery_code_among(user.id, &former).await?;
            Ok(found.or_else(|| app.recovery_codes.hash(user.id, code)).map(FactorUse::RecoveryCode))
        }
        // An action that needs a factor of its own does not accept a recent one.
        GivenFactor::Recent => Ok(None),
        GivenFactor::Passkey { ceremony, answer } => {
            let whose = (CeremonyPurpose::Factor, Some(user.id));
            let ceremony = ceremonies::open_once(app, ceremony, whose, now).await?;
            let found = app.store.passkey_of(answer.credential()).await?;
            let Some(passkey) = found.filter(|found| found.user == user.id && !answer.contradicts(user.id))
            else {
                return Ok(None);
            };
            let entry = user_entry(user, client, "passkey.refused", String::new(), now);
            ceremonies::verified_by(app, ceremony, answer, &passkey, entry).await
        }
    }
}

/// A verified factor of a logged-in user. The permitted change uses it up.
pub(super) struct Proof {
    pub(super) used: FactorUse,
    ticket: AttemptTicket,
}

/// Verifies a factor of a logged-in user. It counts as wrong until [`accept`], so that parallel guesses gain nothing
/// over sequential ones.
///
/// # Errors
/// `ErrorCode::FactorWrong`; `ErrorCode::AccountLocked` after too many wrong ones; [`ActionError::Unavailable`].
pub(super) async fn prove(
    app: &AppState,
    session: &AuthSession,
    given: &GivenFactor,
    client: &Client,
    now: Time,
) -> Result<Proof, ActionError> {
    let user = &session.user;
    let ticket = begin_password_attempt(app, AttemptKind::Factors(&user.email), now).await?;
    match verified(app, user, given, client, now).await? {
        Some(used) => Ok(Proof { used, ticket }),
        None => Err(refuse(app, session, &ticket, client, now).await),
    }
}

/// Checks that the user who adds a factor has proven to be the account's owner. A user who has factors must give one,
/// which is used up, because the new factor could remove it. The error for a missing factor has the text `missing`.
///
/// # Errors
/// [`ErrorCode::ProofRequired`] without a recent proof, [`ErrorCode::FactorRequired`] without a factor, and those of
/// [`prove`] and [`accept`].
pub(super) async fn prove_for_another(
    app: &AppState,
    session: &AuthSession,
    given: Option<GivenFactor>,
    missing: &'static str,
    client: &Client,
    now: Time,
) -> Result<(), ActionError> {
    let user = session.user.id;
    let has_factors = app.store.factors(user).await?.any();
    let given = match given {
        // The factor that is verified below is a proof too.
        Some(given) if has_factors && !matches!(given, GivenFactor::Recent) => given,
        given => {
            let is_recent = given.is_some() && is_recent(session, now);
            let lacks_factor = has_factors && !is_recent;
            // Pages redirect to their own question for the factor; the API asks for any proof first.
            if given.is_none() || !lacks_factor {
                expect_proof(session, now)?;
            }
            return if lacks_factor {
                Err(ActionError::Refused(ErrorCode::FactorRequired, missing))
            } else {
                Ok(())
            };
        }
    };
    let proof = prove(app, session, &given, client, now).await?;
    let entry = audit::entry(session, client, "factor.given", user.to_string(), now);
    let is_done = app.store.give_factor((user, session.id), &proof.used, &entry).await?;
    accept(app, &proof, is_done, session, client, now).await
}

/// Completes a proof after the change that it permits. `is_done` is true if the store has used the factor up. Notifies
/// the user if it was a recovery code.
///
/// # Errors
/// `ErrorCode::FactorWrong` if it was used before; [`ActionError::Unavailable`].
pub(super) async fn accept(
    app: &AppState,
    proof: &Proof,
    is_done: bool,
    session: &AuthSession,
    client: &Client,
    now: Time,
) -> Result<(), ActionError> {
    if !is_done {
        return Err(refuse(app, session, &proof.ticket, client, now).await);
    }
    app.store.forgive_attempts(&proof.ticket).await?;
    notify_of_recovery_code(app, &session.user, &proof.used, client).await;
    Ok(())
}

/// Records a wrong factor of a logged-in user, notifies the user of a resulting lock, and returns the error.
async fn refuse(
    app: &AppState,
    session: &AuthSession,
    ticket: &AttemptTicket,
    client: &Client,
    now: Time,
) -> ActionError {
    let entry = audit::entry(session, client, "factor.wrong", session.user.id.to_string(), now);
    if let Err(error) = app.store.note(&entry).await {
        return error.into();
    }
    if let Some(event) = locked_by(ticket) {
        security::notify(app, &session.user, event, client.address).await;
    }
    ActionError::Refused(ErrorCode::FactorWrong, WRONG)
}

/// Returns the pending log-in of an `mfa_token`, by its digest, and its user.
///
/// # Errors
/// `ErrorCode::LogInExpired` if it is no longer pending, [`ActionError::Unavailable`].
pub(super) async fn pending(app: &AppState, token: &str, now: Time) -> Result<(Digest, User), ActionError> {
    let expired = || ActionError::Refused(ErrorCode::LogInExpired, NOT_PENDING);
    let token = OpaqueHash::of(OpaqueKind::PendingLogIn, token).ok_or_else(expired)?;
    let token = Digest(token.0);
    let user = app.store.pending_log_in(&token, now).await?.ok_or_else(expired)?;
    Ok((token, user))
}

/// Completes the log-in of `token` by a second factor, and opens a session. A log-in can be completed once, within five
/// minutes and five attempts. Five wrong factors in 15 minutes, in any log-ins, lock the user's factors for 15 minutes.
///
/// # Errors
/// `ErrorCode::LogInExpired` if the log-in is no longer pending; `ErrorCode::CredentialsWrong` if the factor is
/// wrong or was used before; `ErrorCode::AccountLocked` while the factors are locked; [`ActionError::Unavailable`].
pub async fn verify(
    app: &Arc<AppState>,
    token: &str,
    given: &GivenFactor,
    client: &Client,
) -> Result<SessionTokens, ActionError> {
    let now = app.now();
    let (token, user) = pending(app, token, now).await?;
    let ticket = begin_password_attempt(app, AttemptKind::Factors(&user.email), now).await?;
    if !app.store.count_factor_try(&token, now).await? {
        return Err(ActionError::Refused(ErrorCode::LogInExpired, NOT_PENDING));
    }
    let used = verified(app, &user, given, client, now).await?;
    let Some(used) = used else { return Err(wrong_at_log_in(app, &user, &ticket, client, now)) };
    let session = new_session(app, &user, used.method(), client, now);
    let refresh = Opaque::make(OpaqueKind::Refresh)?;
    let entry = Audit {
        detail: used.method().as_str().into(),
        ..user_entry(&user, client, "session.opened", session.id.to_string(), now)
    };
    let refresh_hash = Digest(refresh.hash().0);
    let app = app.clone();
    let client = client.clone();
    to_the_end(async move {
        if !app.store.finish_log_in(&token, &used, &session, &refresh_hash, &entry).await? {
            return Err(wrong_at_log_in(&app, &user, &ticket, &client, now));
        }
        app.store.forgive_attempts(&ticket).await?;
        notify_of_recovery_code(&app, &user, &used, &client).await;
        security::note_device(&app, &user, &client, now).await;
        opened(&app, &user, session.id, &refresh)
    })
    .await
}

/// Records a wrong factor at a log-in, notifies the user of a resulting lock, and returns the error.
fn wrong_at_log_in(
    app: &Arc<AppState>,
    user: &User,
    ticket: &AttemptTicket,
    client: &Client,
    now: Time,
) -> ActionError {
    let entry = user_entry(user, client, "factor.wrong", user.id.to_string(), now);
    note_failure(app, entry, Some(user), locked_by(ticket), client);
    ActionError::Refused(ErrorCode::CredentialsWrong, WRONG)
}

//! Authenticator apps, the second factor that shows codes.

use super::factors::{GivenFactor, accept, expect_proof, prove, prove_for_another, sealed_for, to_the_end};
use super::{audit, security};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::totp::TotpSecret;
use crate::mail::SecurityEvent;
use rpcgate_config::Secret;
use std::sync::Arc;

const APP: &str = "authenticator app";

/// The error for an account whose address must be confirmed before it gets a second factor.
pub const UNCONFIRMED: ActionError = ActionError::Refused(
    ErrorCode::EmailUnconfirmed,
    "confirm your e-mail address before you add a second factor",
);

/// The secret of a new authenticator app, in each form that an app accepts. It is shown once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedTotp {
    /// For typing: base32.
    pub secret: Secret,
    /// For apps on the same device: an `otpauth` URI.
    pub uri: Secret,
    /// For the camera of another device: the URI as a QR code, an SVG image.
    pub qr_svg: Secret,
}

/// Generates a secret for an authenticator app. It replaces an earlier one that was not activated.
///
/// # Errors
/// `ErrorCode::EmailUnconfirmed` before the user's address is confirmed, [`ErrorCode::ProofRequired`] without a
/// recent proof, [`ActionError::Conflict`] if an app is activated, [`ActionError::Unavailable`].
pub async fn enroll(
    app: &AppState,
    session: &AuthSession,
    client: &Client,
) -> Result<OfferedTotp, ActionError> {
    let user = &session.user;
    let now = app.now();
    // An unconfirmed account may have been registered by someone other than the address's owner. A second factor of
    // that person would lock the owner out permanently.
    if user.confirmed_at.is_none() {
        return Err(UNCONFIRMED);
    }
    expect_proof(session, now)?;
    let secret = TotpSecret::make(&user.email)?;
    let sealed = app.sealing.seal(sealed_for(user), secret.bytes())?;
    let entry = audit::entry(session, client, "totp.offered", user.id.to_string(), now);
    if !app.store.start_totp(user.id, &sealed, &entry, now).await? {
        return Err(ActionError::Conflict("an authenticator app is activated already: switch it off first"));
    }
    Ok(OfferedTotp { secret: secret.base32(), uri: secret.uri()?, qr_svg: secret.qr_svg()? })
}

/// Activates the authenticator app with one of its codes, and returns new recovery codes, which are shown once. All
/// other sessions of the user end. A user who has another second factor must give it, because a code of the app can
/// remove that one.
///
/// # Errors
/// [`ErrorCode::ProofRequired`] without a recent proof; [`ActionError::Invalid`] if the code is wrong;
/// [`ActionError::Conflict`] without a secret to activate; `ErrorCode::FactorRequired` without another factor of the
/// user; `ErrorCode::FactorWrong`, or `ErrorCode::AccountLocked` after too many wrong ones;
/// [`ActionError::Unavailable`].
pub async fn activate(
    app: &Arc<AppState>,
    session: &AuthSession,
    code: &str,
    given: Option<GivenFactor>,
    client: &Client,
) -> Result<Vec<Secret>, ActionError> {
    const NONE: ActionError =
        ActionError::Conflict("no authenticator app is waiting for its activation: enroll one first");
    let user = session.user.clone();
    let now = app.now();
    if given.is_none() {
        expect_proof(session, now)?;
    }
    let offered = app.store.totp(user.id).await?.filter(|totp| totp.activated_at.is_none()).ok_or(NONE)?;
    let secret = TotpSecret::of(&app.sealing.open(sealed_for(&user), &offered.sealed)?, &user.email);
    let step = secret.step_of(code, now);
    let step = step.ok_or_else(|| ActionError::named("code", "is not the one that the app shows"))?;
    let missing = "give one of your second factors to add an authenticator app";
    prove_for_another(app, session, given, missing, client, now).await?;
    let (codes, hashes): (Vec<_>, Vec<_>) = app.recovery_codes.make(user.id)?.into_iter().unzip();
    let entry = audit::entry(session, client, "totp.activated", user.id.to_string(), now);
    let app = app.clone();
    let keep = session.id;
    let address = client.address;
    to_the_end(async move {
        let whose = (user.id, keep);
        if !app.store.activate_totp(whose, &offered.sealed, step, &hashes, &entry).await? {
            return Err(NONE);
        }
        security::notify(&app, &user, SecurityEvent::FactorAdded { factor: APP }, address).await;
        Ok(codes)
    })
    .await
}

/// Removes the authenticator app, which needs a factor. All other sessions of the user end. Without another factor, the
/// recovery codes become invalid.
///
/// # Errors
/// [`ActionError::Conflict`] if no app is activated; `ErrorCode::FactorWrong` if the factor is wrong or was used
/// before, `ErrorCode::AccountLocked` after too many wrong ones; [`ActionError::Unavailable`].
pub async fn disable(
    app: &Arc<AppState>,
    session: &AuthSession,
    given: &GivenFactor,
    client: &Client,
) -> Result<(), ActionError> {
    let user = session.user.clone();
    let now = app.now();
    if !app.store.factors(user.id).await?.totp {
        return Err(ActionError::Conflict("no authenticator app is activated"));
    }
    let proof = prove(app, session, given, client, now).await?;
    let entry = audit::entry(session, client, "totp.disabled", user.id.to_string(), now);
    let app = app.clone();
    let session = session.clone();
    let client = client.clone();
    to_the_end(async move {
        let is_done = app.store.remove_totp((user.id, session.id), &proof.used, &entry).await?;
        accept(&app, &proof, is_done, &session, &client, now).await?;
        security::notify(&app, &user, SecurityEvent::FactorRemoved { factor: APP }, client.address).await;
        Ok(())
    })
    .await
}

//! Routes of the caller's authenticator app.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::step_up;
use rpcgate_management::action::totp::{self};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, OptionalBody};
use rpcgate_management::shape::factors::{GiveFactor, RecoveryCodesJson};
use rpcgate_management::shape::proofs::GiveProof;
use rpcgate_management::shape::totp::{ActivateTotp, TotpSecretJson};
use std::sync::Arc;

/// Add an authenticator app
///
/// Returns a new secret for an app. The app becomes a second factor when a code activates it. Until then, another call
/// can replace the secret. Needs a proof: `current_password` or a factor in the body, or a proof of the session from
/// the last ten minutes (`POST /auth/proof`). The activation then needs no other proof.
#[utoipa::path(post, path = "/auth/mfa/totp/enroll", operation_id = "enroll_totp", tag = "account",
    request_body(content = Option<GiveProof>, description = "Without a body the session must have a proof."),
    responses(
        (status = 200, description = "The secret of the app.", body = TotpSecretJson),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The address is not confirmed."),
        (status = 409, description = "An app is activated already.")))]
pub async fn enroll(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    OptionalBody(proof): OptionalBody<GiveProof>,
) -> Result<Json<TotpSecretJson>, ActionError> {
    if session.user.confirmed_at.is_none() {
        return Err(totp::UNCONFIRMED);
    }
    let session = step_up::require(&app, &session, proof.into_optional()?, &client).await?;
    Ok(Json(totp::enroll(&app, &session, &client).await?.into()))
}

/// Activate the authenticator app
///
/// A caller who has a passkey must give it or a recovery code. From then on, every log-in needs a second factor. All
/// other sessions end. Returns ten recovery codes, which are not shown again and replace earlier ones.
#[utoipa::path(post, path = "/auth/mfa/totp/activate", operation_id = "activate_totp", tag = "account",
    request_body = ActivateTotp,
    responses(
        (status = 200, description = "The recovery codes.", body = RecoveryCodesJson),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "Another factor is missing or wrong, or the factors are temporarily locked."),
        (status = 409, description = "No app waits for its activation.")))]
pub async fn activate(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(form): Body<ActivateTotp>,
) -> Result<Json<RecoveryCodesJson>, ActionError> {
    let other = GiveFactor { code: None, recovery_code: form.recovery_code, passkey: form.passkey };
    let other = other.into_optional()?;
    let session = step_up::give_if_any(&app, &session, form.current_password, &client).await?;
    Ok(Json(totp::activate(&app, &session, &form.code, other, &client).await?.into()))
}

/// Switch the authenticator app off
///
/// Needs a code of the app or a recovery code. All other sessions end. Without another factor, the recovery codes
/// become invalid. Five wrong factors in 15 minutes lock the factors of a user for 15 minutes.
#[utoipa::path(post, path = "/auth/mfa/totp/disable", operation_id = "disable_totp", tag = "account",
    request_body = GiveFactor,
    responses(
        (status = 204, description = "Switched off."),
        (status = 401, description = "The factor is missing (`proof_required`)."),
        (status = 403, description = "The factor is wrong or was used before, or the factors are temporarily locked."),
        (status = 409, description = "No app is activated.")))]
pub async fn disable(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(factor): Body<GiveFactor>,
) -> Result<StatusCode, ActionError> {
    totp::disable(&app, &session, &factor.into_proof()?, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

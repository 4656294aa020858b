//! Routes of registration and confirmation of the address.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::accounts::{self, Application};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::accounts::{Confirm, PosedChallengeJson, Register, RegisteredJson};
use std::sync::Arc;

/// Get a challenge
///
/// A registration needs its solution. By default it is a proof of work in ALTCHA's format, valid for 10 minutes and for
/// one registration. The operators of the service can configure hCaptcha or Cloudflare Turnstile instead, whose widgets
/// need the `site_key`.
#[utoipa::path(get, path = "/auth/challenge", operation_id = "get_challenge", tag = "account",
    responses((status = 200, description = "A challenge.", body = PosedChallengeJson)))]
pub async fn challenge(State(app): State<Arc<AppState>>) -> Result<Json<PosedChallengeJson>, ActionError> {
    accounts::challenge(&app).map(|posed| Json(posed.into()))
}

/// Register
///
/// Creates an organisation and its owner, and sends a mail with a link that confirms the address. Only the owner of the
/// address learns, by mail, whether it is taken. An account with this address that was never confirmed is replaced.
#[utoipa::path(post, path = "/auth/register", operation_id = "register", tag = "account",
    request_body = Register,
    responses((status = 201, description = "A mail is on its way.", body = RegisteredJson)))]
pub async fn register(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Register { email, password, name, challenge }): Body<Register>,
) -> Result<(StatusCode, Json<RegisteredJson>), ActionError> {
    let application = Application { email, password, name: name.unwrap_or_default(), challenge };
    let applicant = accounts::register(&app, application, &client).await?;
    Ok((StatusCode::CREATED, Json(applicant.into())))
}

/// Confirm an e-mail address
///
/// Needs the token from the mail, which is valid for a day and can be used once. A given password becomes the account's
/// password and ends all its sessions, which protects a user who does not know who registered the address.
#[utoipa::path(post, path = "/auth/confirm", operation_id = "confirm", tag = "account", request_body = Confirm,
    responses((status = 204, description = "The address is confirmed.")))]
pub async fn confirm(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Confirm { token, password }): Body<Confirm>,
) -> Result<StatusCode, ActionError> {
    accounts::confirm(&app, &token, password, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send the confirmation mail again
///
/// The link in the previous mail becomes invalid.
#[utoipa::path(post, path = "/auth/me/confirmation", operation_id = "confirm_again", tag = "account",
    responses(
        (status = 204, description = "A mail is on its way."),
        (status = 409, description = "The address is confirmed already.")))]
pub async fn confirm_again(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
) -> Result<StatusCode, ActionError> {
    accounts::confirm_again(&app, &session, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
pub(crate) mod tests;

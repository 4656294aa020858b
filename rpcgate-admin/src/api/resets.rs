//! Routes of resets of forgotten passwords.

use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action::resets;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::resets::{Forgot, Reset};
use rpcgate_store::KeptByReset;
use std::sync::Arc;

/// Request a new password
///
/// If the address has an account, sends a mail with a link that sets a password, at most 5 in 15 minutes. The response
/// does not reveal whether it has one.
#[utoipa::path(post, path = "/auth/password/forgot", operation_id = "forgot_password", tag = "account",
    request_body = Forgot,
    responses((status = 202, description = "If the address has an account, a mail is on its way.")))]
pub async fn forgot(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Forgot { email }): Body<Forgot>,
) -> Result<StatusCode, ActionError> {
    resets::forgot(&app, &email, &client).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Set a new password
///
/// Needs the token from the mail, which is valid for an hour and can be used once. All sessions, personal access tokens
/// and a lock of the account end. Its address is confirmed, because the mail has reached its reader. Second factors
/// that were added in the last seven days are removed with all recovery codes, unless `keep_factors` is true. Open
/// invitations that the user made are withdrawn, unless `keep_invitations` is true.
#[utoipa::path(post, path = "/auth/password/reset", operation_id = "reset_password", tag = "account",
    request_body = Reset,
    responses((status = 204, description = "The password is set.")))]
pub async fn reset(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Reset { token, password, keep_factors, keep_invitations }): Body<Reset>,
) -> Result<StatusCode, ActionError> {
    let kept_by_reset = KeptByReset { factors: keep_factors, invitations: keep_invitations };
    resets::reset(&app, &token, password, kept_by_reset, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

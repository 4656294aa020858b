//! Routes of a change of the caller's e-mail address.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::emails;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::emails::{AwaitedEmail, ChangeEmail};
use std::sync::Arc;

/// Change the e-mail address
///
/// Sends a mail with a link to the new address. The change takes effect when its token is confirmed, like that of a new
/// account. The previous address is notified both times. Only the owner of the new address learns whether it is taken.
/// A wrong password counts as at the log-in.
#[utoipa::path(put, path = "/auth/me/email", operation_id = "change_email", tag = "account",
    request_body = ChangeEmail,
    responses(
        (status = 202, description = "A mail is on its way.", body = AwaitedEmail),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The current password is wrong, the account is temporarily locked, or its \
            address is not confirmed.")))]
pub async fn change(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(ChangeEmail { email, current_password }): Body<ChangeEmail>,
) -> Result<(StatusCode, Json<AwaitedEmail>), ActionError> {
    let email = emails::request(&app, &session, &email, current_password, &client).await?;
    Ok((StatusCode::ACCEPTED, Json(AwaitedEmail { email: email.to_string(), confirmed: false })))
}

#[cfg(test)]
mod tests;

//! Routes of the caller's account.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::me::{ChangePassword, Me, Rename};
use std::sync::Arc;

/// Get the caller's account
#[utoipa::path(get, path = "/auth/me", operation_id = "get_me", tag = "account",
    responses((status = 200, description = "The calling user.", body = Me)))]
pub async fn get(session: AuthSession) -> Json<Me> {
    Json(Me::from(session.user.as_ref()))
}

/// Change the caller's account
#[utoipa::path(put, path = "/auth/me", operation_id = "put_me", tag = "account", request_body = Rename,
    responses((status = 200, description = "The updated user.", body = Me)))]
pub async fn put(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(Rename { name }): Body<Rename>,
) -> Result<Json<Me>, ActionError> {
    let user = action::me::rename(&app, &session, &name, None, &client).await?;
    Ok(Json(Me::from(&user)))
}

/// Change the password
///
/// Ends all other sessions at once. A wrong current password counts as at the log-in.
#[utoipa::path(post, path = "/auth/me/password", operation_id = "change_password", tag = "account",
    request_body = ChangePassword,
    responses(
        (status = 204, description = "Changed."),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The current password is wrong, or the account is temporarily locked."),
        (status = 409, description = "The password was changed by another request.")))]
pub async fn change_password(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(ChangePassword { current_password, new_password }): Body<ChangePassword>,
) -> Result<StatusCode, ActionError> {
    action::me::change_password(&app, &session, current_password, new_password, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

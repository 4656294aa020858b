//! Routes of the caller's recovery codes.

use axum::Json;
use axum::extract::State;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::recovery_codes;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::factors::{GiveFactor, RecoveryCodesJson};
use std::sync::Arc;

/// Create new recovery codes
///
/// Needs a factor. Returns ten recovery codes, which are not shown again. Earlier codes become invalid.
#[utoipa::path(post, path = "/auth/mfa/recovery-codes", operation_id = "renew_recovery_codes", tag = "account",
    request_body = GiveFactor,
    responses(
        (status = 200, description = "The recovery codes.", body = RecoveryCodesJson),
        (status = 401, description = "The factor is missing (`proof_required`)."),
        (status = 403, description = "The factor is wrong or was used before, or the factors are temporarily locked."),
        (status = 409, description = "The caller has no second factor.")))]
pub async fn renew(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(factor): Body<GiveFactor>,
) -> Result<Json<RecoveryCodesJson>, ActionError> {
    Ok(Json(recovery_codes::renew(&app, &session, &factor.into_proof()?, &client).await?.into()))
}

//! Routes of proofs: the password or a second factor, given again in a session.

use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::step_up::{self};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::proofs::GiveProof;
use std::sync::Arc;

/// Give a proof
///
/// The password or a second factor. For the next ten minutes, the session may do what a stolen access token must not:
/// add or remove a second factor; change the address, the password, personal access tokens or passkeys; invite or
/// remove owners and admins, or grant or withdraw these roles; end the rule that members need a second factor; and
/// delete. An operator needs a proof to reset, disable or enable an account and to remove its factors. Without a proof,
/// these requests get 401 with the code `proof_required`. Wrong passwords and factors count as at the log-in.
#[utoipa::path(post, path = "/auth/proof", operation_id = "give_proof", tag = "account", request_body = GiveProof,
    responses(
        (status = 204, description = "The session has a proof."),
        (status = 401, description = "The body has no proof (`proof_required`)."),
        (status = 403, description = "The password or the factor is wrong, or they are temporarily locked.")))]
pub async fn give(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(proof): Body<GiveProof>,
) -> Result<StatusCode, ActionError> {
    let given = proof.into_optional()?.ok_or(ActionError::PROOF_REQUIRED)?;
    step_up::give(&app, &session, given, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

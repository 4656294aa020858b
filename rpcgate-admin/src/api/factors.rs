//! Routes of second factors, and of the second step of a log-in.

use axum::Json;
use axum::extract::State;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::factors::{self};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client};
use rpcgate_management::shape::factors::{FactorsJson, VerifyFactor};
use rpcgate_management::shape::sessions::LoggedIn;
use std::sync::Arc;

/// Show the caller's second factors
#[utoipa::path(get, path = "/auth/mfa", operation_id = "get_factors", tag = "account",
    responses((status = 200, description = "The factors.", body = FactorsJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
) -> Result<Json<FactorsJson>, ActionError> {
    Ok(Json(factors::overview(&app, &session).await?.into()))
}

/// Complete a log-in with a second factor
///
/// The token of a log-in works once, for five minutes, and for five factors. A code of an app works once. Five wrong
/// factors in 15 minutes lock the factors of a user for 15 minutes.
#[utoipa::path(post, path = "/auth/mfa/verify", operation_id = "verify_factor", tag = "account",
    request_body = VerifyFactor,
    responses(
        (status = 200, description = "Logged in.", body = LoggedIn),
        (status = 401, description = "The factor is wrong or was used before, or the log-in has expired."),
        (status = 403, description = "The factors are temporarily locked.")))]
pub async fn verify(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(form): Body<VerifyFactor>,
) -> Result<Json<LoggedIn>, ActionError> {
    let token = form.mfa_token.clone();
    let given = form.factor().into_given()?;
    Ok(Json(factors::verify(&app, &token, &given, &client).await?.into()))
}

#[cfg(test)]
pub(crate) mod tests;

//! Routes of second factors, and of the second step of a log-in.

use crate::management::access::AuthSession;
use crate::management::action::factors::{self, GivenFactor};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Client};
use crate::management::identity::passkey::PasskeyAnswer;
use crate::management::shape::factors::{FactorsJson, GivePasskey, VerifyFactor};
use crate::management::shape::sessions::LoggedIn;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

impl TryFrom<GivePasskey> for GivenFactor {
    type Error = ActionError;

    fn try_from(GivePasskey { ceremony, credential }: GivePasskey) -> Result<Self, ActionError> {
        let answer = Box::new(PasskeyAnswer::read(credential)?);
        Ok(GivenFactor::Passkey { ceremony, answer })
    }
}

/// Show the caller's second factors
#[utoipa::path(get, path = "/auth/mfa", operation_id = "get_factors", tag = "account",
    responses((status = 200, description = "The factors.", body = FactorsJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
) -> Result<Json<FactorsJson>, ActionError> {
    Ok(Json(factors::overview(&app, &session).await?.into()))
}

/// Complete a log-in by a second factor
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
    let (token, given) = (form.mfa_token.clone(), form.factor().into_given()?);
    Ok(Json(factors::verify(&app, &token, &given, &client).await?.into()))
}

#[cfg(test)]
pub(crate) mod tests;

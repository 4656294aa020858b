//! Passwords that were forgotten.

use crate::management::action::resets;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Client};
use crate::management::identity::password::Typed;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// Whose password was forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Forgot {
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
}

/// What sets a password.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The token in the link.
    pub token: String,
    /// The password from now on, at least 10 characters.
    #[schema(value_type = String, format = Password, min_length = 10, max_length = 256)]
    pub password: Typed,
}

impl fmt::Debug for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reset")
    }
}

/// Ask for a new password
///
/// A mail with a link that sets one is sent if the address has an account, at most 5 in 15 minutes. Whether it has is told
/// to nobody.
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
/// With the token that came by mail. It is good for an hour, and once. All sessions of the account end, a lock of it ends
/// too, and its address is confirmed: whoever reads the mails has the account.
#[utoipa::path(post, path = "/auth/password/reset", operation_id = "reset_password", tag = "account",
    request_body = Reset,
    responses((status = 204, description = "The password is set.")))]
pub async fn reset(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Reset { token, password }): Body<Reset>,
) -> Result<StatusCode, ActionError> {
    resets::reset(&app, &token, password, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

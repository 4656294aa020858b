//! Another address for the own account.

use crate::management::access::AuthSession;
use crate::management::action::emails;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Client};
use crate::management::identity::password::Typed;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What changes an address.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeEmail {
    /// The address that the account is to have.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The password of the account.
    #[schema(value_type = String, format = Password)]
    pub current_password: Typed,
}

/// An address that waits for its confirmation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct AwaitedEmail {
    /// The address that a mail went to.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// Whether the address is confirmed, which it is not yet.
    pub confirmed: bool,
}

/// Change the e-mail address
///
/// A mail with a link is sent to the new address; the change takes effect when its token is confirmed, as that of a new
/// account is. The address before is told, now and then. Whether somebody has the new address is told to its owner alone.
/// A wrong password counts as one does at the log-in.
#[utoipa::path(put, path = "/auth/me/email", operation_id = "change_email", tag = "account",
    request_body = ChangeEmail,
    responses(
        (status = 202, description = "A mail is on its way.", body = AwaitedEmail),
        (status = 403, description = "The current password is wrong, the account is temporarily locked, or its \
            address is not confirmed.")))]
pub async fn change(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(ChangeEmail { email, current_password }): Body<ChangeEmail>,
) -> Result<(StatusCode, Json<AwaitedEmail>), ActionError> {
    let email = emails::ask(&app, &session, &email, current_password, &client).await?;
    Ok((StatusCode::ACCEPTED, Json(AwaitedEmail { email: email.to_string(), confirmed: false })))
}

#[cfg(test)]
mod tests;

//! Proofs: the password or a second factor, given again in a session.

use super::factors::GiveFactor;
use super::factors::GivePasskey;
use crate::management::access::AuthSession;
use crate::management::action::factors::GivenFactor;
use crate::management::action::step_up::{self, GivenProof};
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

/// A proof, in one of its forms. In a request that needs one it can be left out if the session has one that is not older
/// than ten minutes.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveProof {
    /// The password of the account.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
    /// The code that the authenticator app shows.
    #[schema(example = "123456")]
    #[serde(default)]
    pub code: Option<String>,
    /// A recovery code.
    #[schema(example = "0123-4567-89ab-cdef")]
    #[serde(default)]
    pub recovery_code: Option<String>,
    /// A passkey, which `POST /auth/passkeys/factor/start` asks for.
    #[serde(default)]
    pub passkey: Option<GivePasskey>,
}

impl fmt::Debug for GiveProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveProof")
    }
}

impl GiveProof {
    /// The password and the factor that are given.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] if several factors are given.
    pub fn parts(self) -> Result<(Option<Typed>, Option<GivenFactor>), ActionError> {
        let factor = GiveFactor { code: self.code, recovery_code: self.recovery_code, passkey: self.passkey };
        Ok((self.current_password, factor.given_if_any()?))
    }

    /// The proof, if one is given: the factor rather than the password.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] if several factors are given.
    pub fn given_if_any(self) -> Result<Option<GivenProof>, ActionError> {
        let (password, factor) = self.parts()?;
        Ok(factor.map(GivenProof::Factor).or(password.map(GivenProof::Password)))
    }
}

/// Give a proof
///
/// The password or a second factor. For the next ten minutes, the session may do what a stolen access token must not:
/// add or remove a second factor, change the address, the password, personal access tokens or passkeys, invite, make, unmake
/// or remove owners and admins, end the rule that members need a second factor, and delete. An operator needs one to reset,
/// disable or enable an account and to remove its factors. Without a proof these answer 401 with the code `proof_required`.
/// Wrong passwords and factors count as at the log-in.
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
    let given = proof.given_if_any()?.ok_or(ActionError::PROOF_REQUIRED)?;
    step_up::give(&app, &session, given, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

//! JSON shape of a proof: the password or a second factor, given again in a session.

use crate::action::factors::GivenFactor;
use crate::action::step_up::GivenProof;
use crate::error::ActionError;
use crate::identity::password::Typed;
use crate::shape::factors::{GiveFactor, GivePasskey};
use serde::Deserialize;
use std::fmt;
use utoipa::ToSchema;

/// A proof, in one of its forms. A request that needs one can leave it out if the session has a proof from the last ten
/// minutes.
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
    /// A passkey, for which `POST /auth/passkeys/factor/start` asks.
    #[serde(default)]
    pub passkey: Option<GivePasskey>,
}

impl fmt::Debug for GiveProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveProof")
    }
}

impl GiveProof {
    /// Returns the password and the factor, if given.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] if several factors are given.
    pub fn parts(self) -> Result<(Option<Typed>, Option<GivenFactor>), ActionError> {
        let factor = GiveFactor { code: self.code, recovery_code: self.recovery_code, passkey: self.passkey };
        Ok((self.current_password, factor.into_optional()?))
    }

    /// Returns the proof, if one is given. A factor takes precedence over the password.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] if several factors are given.
    pub fn into_optional(self) -> Result<Option<GivenProof>, ActionError> {
        let (password, factor) = self.parts()?;
        Ok(factor.map(GivenProof::Factor).or(password.map(GivenProof::Password)))
    }
}

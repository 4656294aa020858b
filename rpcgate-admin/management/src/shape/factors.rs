//! JSON shapes of second factors, and of the second step of a log-in.

use crate::action::factors::GivenFactor;
use crate::error::ActionError;
use crate::identity::passkey::PasskeyAnswer;
use rpcgate_config::Secret;
use rpcgate_store::Factors;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use utoipa::ToSchema;

/// The second factors of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Factors)]
pub struct FactorsJson {
    /// True if an authenticator app is activated.
    pub totp: bool,
    /// The number of passkeys.
    pub passkeys: u64,
    /// The number of unused recovery codes.
    #[schema(example = 10)]
    pub recovery_codes: u64,
}

impl From<Factors> for FactorsJson {
    fn from(Factors { totp, passkeys, recovery_codes }: Factors) -> Self {
        FactorsJson { totp, passkeys, recovery_codes }
    }
}

/// A passkey as a factor.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GivePasskey {
    /// The token of the ceremony that asked for the passkey.
    pub ceremony: String,
    /// The browser's result (`PublicKeyCredential.toJSON`).
    #[schema(value_type = Object)]
    pub credential: Value,
}

impl fmt::Debug for GivePasskey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivePasskey")
    }
}

/// The names of the fields that can hold a factor.
pub(crate) const FORMS: &str = "`code`, `recovery_code` and `passkey`";

/// A factor, in exactly one of its forms.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveFactor {
    /// The code that the authenticator app shows.
    #[schema(example = "123456")]
    #[serde(default)]
    pub code: Option<String>,
    /// A recovery code.
    #[schema(example = "0123-4567-89ab-cdef")]
    #[serde(default)]
    pub recovery_code: Option<String>,
    /// A passkey.
    #[serde(default)]
    pub passkey: Option<GivePasskey>,
}

impl fmt::Debug for GiveFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveFactor")
    }
}

impl GiveFactor {
    /// Returns the factor.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] unless exactly one form is given.
    pub fn into_given(self) -> Result<GivenFactor, ActionError> {
        self.into_optional()?.ok_or_else(wrong_number)
    }

    /// Returns the factor of a request that needs it as a proof.
    ///
    /// # Errors
    /// [`ActionError::PROOF_REQUIRED`] if none is given, [`ActionError::Invalid`] if several forms are given.
    pub fn into_proof(self) -> Result<GivenFactor, ActionError> {
        self.into_optional()?.ok_or(ActionError::PROOF_REQUIRED)
    }

    /// Returns the factor, if one is given.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] if several forms are given.
    pub fn into_optional(self) -> Result<Option<GivenFactor>, ActionError> {
        let mut given = Vec::new();
        given.extend(self.code.map(GivenFactor::Code));
        given.extend(self.recovery_code.map(GivenFactor::RecoveryCode));
        given.extend(self.passkey.map(GivenFactor::try_from).transpose()?);
        let one = given.pop();
        if given.is_empty() { Ok(one) } else { Err(wrong_number()) }
    }
}

pub(crate) fn wrong_number() -> ActionError {
    ActionError::field("code", format!("exactly one of {FORMS} is needed"))
}

/// The second step of a log-in: its token and exactly one factor.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyFactor {
    /// The token that the log-in returned.
    pub mfa_token: String,
    /// The code that the authenticator app shows.
    #[schema(example = "123456")]
    #[serde(default)]
    pub code: Option<String>,
    /// A recovery code.
    #[schema(example = "0123-4567-89ab-cdef")]
    #[serde(default)]
    pub recovery_code: Option<String>,
    /// A passkey.
    #[serde(default)]
    pub passkey: Option<GivePasskey>,
}

impl VerifyFactor {
    /// Returns the factor that the form contains.
    pub fn factor(self) -> GiveFactor {
        GiveFactor { code: self.code, recovery_code: self.recovery_code, passkey: self.passkey }
    }
}

impl fmt::Debug for VerifyFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerifyFactor")
    }
}

/// New recovery codes.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = RecoveryCodes)]
pub struct RecoveryCodesJson {
    /// The codes, which are not shown again. Each replaces a second factor once.
    pub recovery_codes: Vec<String>,
}

impl fmt::Debug for RecoveryCodesJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryCodesJson")
    }
}

impl From<Vec<Secret>> for RecoveryCodesJson {
    fn from(codes: Vec<Secret>) -> Self {
        RecoveryCodesJson { recovery_codes: codes.iter().map(|code| code.expose().to_owned()).collect() }
    }
}

impl TryFrom<GivePasskey> for GivenFactor {
    type Error = ActionError;

    fn try_from(GivePasskey { ceremony, credential }: GivePasskey) -> Result<Self, ActionError> {
        let answer = Box::new(PasskeyAnswer::read(credential)?);
        Ok(GivenFactor::Passkey { ceremony, answer })
    }
}

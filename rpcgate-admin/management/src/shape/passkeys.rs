//! JSON shapes of passkeys, and of logging in with one.

use crate::action::passkeys::RegisteredPasskey;
use crate::identity::passkey::StartedCeremony;
use crate::shape::factors::RecoveryCodesJson;
use crate::shape::moment::Moment;
use rpcgate_store::StoredPasskey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use utoipa::ToSchema;

/// The first half of a passkey ceremony.
#[derive(Clone, Serialize, ToSchema)]
pub struct Ceremony {
    /// The token for the second half. It can be used once, within five minutes.
    pub ceremony: String,
    /// The argument for the browser's `navigator.credentials.create` or `get`. Its binary members are base64url
    /// (`PublicKeyCredential.parseCreationOptionsFromJSON`, `parseRequestOptionsFromJSON`).
    #[schema(value_type = Object)]
    pub options: Value,
}

impl fmt::Debug for Ceremony {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ceremony").field("options", &self.options).finish_non_exhaustive()
    }
}

impl From<StartedCeremony> for Ceremony {
    fn from(StartedCeremony { token, options }: StartedCeremony) -> Self {
        Ceremony { ceremony: token, options }
    }
}

/// A passkey of the caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Passkey)]
pub struct PasskeyJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The name that the caller gave it.
    #[schema(example = "Ada's telephone")]
    pub name: String,
    /// The time of registration.
    #[schema(value_type = String, format = "date-time")]
    pub created_at: Moment,
    /// The time of the last use, or null.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub used_at: Option<Moment>,
}

impl From<StoredPasskey> for PasskeyJson {
    fn from(StoredPasskey { id, name, created_at, used_at, .. }: StoredPasskey) -> Self {
        let created_at = created_at.into();
        let used_at = used_at.map(Moment);
        PasskeyJson { id: id.to_string(), name, created_at, used_at }
    }
}

/// The second half of a registration.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRegistration {
    /// The token from the first half.
    pub ceremony: String,
    /// The browser's result (`PublicKeyCredential.toJSON`).
    #[schema(value_type = Object)]
    pub credential: Value,
    /// A name for the passkey, at most 200 characters.
    #[schema(min_length = 1, max_length = 200, example = "Ada's telephone")]
    pub name: String,
}

impl fmt::Debug for FinishRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishRegistration").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A registered passkey.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AddedPasskey {
    /// The passkey.
    pub passkey: PasskeyJson,
    /// Ten recovery codes if this is the caller's first factor. They are not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_codes: Option<Vec<String>>,
}

impl From<RegisteredPasskey> for AddedPasskey {
    fn from(RegisteredPasskey { passkey, recovery_codes }: RegisteredPasskey) -> Self {
        let recovery_codes = recovery_codes.map(|codes| RecoveryCodesJson::from(codes).recovery_codes);
        AddedPasskey { passkey: passkey.into(), recovery_codes }
    }
}

/// The first half of a log-in.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartLogIn {
    /// The token of a log-in that waits for a second factor. Without it, the passkey alone logs its user in.
    #[serde(default)]
    pub mfa_token: Option<String>,
}

impl fmt::Debug for StartLogIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartLogIn")
    }
}

/// The second half of a ceremony that asked for a passkey.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishLogIn {
    /// The token from the first half.
    pub ceremony: String,
    /// The browser's result (`PublicKeyCredential.toJSON`).
    #[schema(value_type = Object)]
    pub credential: Value,
}

impl fmt::Debug for FinishLogIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FinishLogIn")
    }
}

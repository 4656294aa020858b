//! Passkeys: keys in a device or password manager, which uses them only after its user has unlocked it (W3C Web
//! Authentication).
//!
//! Registration and log-in are ceremonies of two requests. The first returns *options* for the browser and a *ceremony*
//! token with everything that the second needs: the 256-bit challenge, the purpose, the user and the expiry. The token
//! is encrypted, so that unfinished ceremonies need no storage.

use super::sealing::{SealedFor, Sealing, SealingError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rpcgate_core::clock::Time;
use rpcgate_store::{Digest, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use webauthn_rs::prelude::{
    DiscoverableAuthentication, Passkey, PasskeyRegistration, PublicKeyCredential,
    RegisterPublicKeyCredential, Url, Uuid, Webauthn, WebauthnBuilder, WebauthnError,
};

/// The time in which a ceremony must be finished.
pub const CEREMONY_LIFE: Duration = Duration::from_secs(300);
/// The site name that browsers show with a passkey.
const SITE: &str = "rpcgate";
const PREFIX: &str = "rpcgw_";
/// The sealed tokens are in no table, so this name is used instead.
const SEALED_FOR: SealedFor<'_> = SealedFor { table: "passkey ceremonies", row: 0 };

/// The reason why a ceremony fails.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasskeyError {
    /// The ceremony is unknown, has expired, or is for another purpose or user.
    #[error("the ceremony is not valid or has expired")]
    Ceremony,
    /// The credential does not have the form that browsers return.
    #[error("`{0}` is not what a browser returns")]
    Malformed(&'static str),
    /// The counter of the passkey has not grown, so a copy of the passkey may exist.
    #[error("the passkey's counter went back")]
    Copied,
    /// The credential was refused. The text is for the log.
    #[error("the passkey was not accepted: {0}")]
    Refused(String),
    /// An internal error. The text is for the log.
    #[error("{0}")]
    Broken(String),
}

impl From<WebauthnError> for PasskeyError {
    fn from(error: WebauthnError) -> Self {
        match error {
            WebauthnError::CredentialPossibleCompromise => PasskeyError::Copied,
            error => PasskeyError::Refused(error.to_string()),
        }
    }
}

impl From<SealingError> for PasskeyError {
    fn from(error: SealingError) -> Self {
        PasskeyError::Broken(error.to_string())
    }
}

/// The purpose of a ceremony.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeremonyPurpose {
    /// Registration of a passkey.
    Register,
    /// Log-in with a passkey alone.
    LogIn,
    /// A passkey as a second factor.
    Factor,
}

#[derive(Serialize, Deserialize)]
struct CeremonyState {
    purpose: CeremonyPurpose,
    user: Option<String>,
    expires_at: u64,
    state: Value,
}

/// The first half of a ceremony.
#[derive(Clone, PartialEq, Debug)]
pub struct StartedCeremony {
    /// The token for the second half.
    pub token: String,
    /// The options for the browser's `navigator.credentials`.
    pub options: Value,
}

/// The second half of a ceremony, whose token was valid. It must be used only once.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenedCeremony {
    /// The digest of the token.
    pub token: Digest,
    /// The time at which it expires.
    pub expires_at: Time,
    state: Value,
}

impl OpenedCeremony {
    /// Returns the time at which the ceremony began.
    pub fn begun_at(&self) -> Time {
        let life = u64::try_from(CEREMONY_LIFE.as_micros()).unwrap_or(u64::MAX);
        Time::from_micros(self.expires_at.micros().saturating_sub(life))
    }
}

/// A browser's answer that proves the possession of a passkey.
#[derive(Clone, Debug)]
pub struct PasskeyAnswer(PublicKeyCredential);

impl PasskeyAnswer {
    /// Reads the browser's answer.
    ///
    /// # Errors
    /// [`PasskeyError::Malformed`].
    pub fn read(credential: Value) -> Result<Self, PasskeyError> {
        read("credential", credential).map(PasskeyAnswer)
    }

    /// Returns the authenticator's identifier of the key.
    pub fn credential(&self) -> &[u8] {
        self.0.get_credential_id()
    }

    /// Reports whether the authenticator says that the key belongs to `user`.
    pub fn names(&self, user: UserId) -> bool {
        self.0.get_user_unique_id().is_some_and(|said| said == user.0.to_be_bytes())
    }

    /// Reports whether the authenticator says that the key belongs to a user other than `user`.
    pub fn contradicts(&self, user: UserId) -> bool {
        self.0.get_user_unique_id().is_some() && !self.names(user)
    }
}

/// A newly registered passkey.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPasskey {
    /// The authenticator's identifier of the key.
    pub credential: Vec<u8>,
    /// The public key and its counter, as JSON.
    pub passkey: String,
}

/// A browser's answer after it has created a passkey.
#[derive(Clone, Debug)]
pub struct RegistrationAnswer(RegisterPublicKeyCredential);

impl RegistrationAnswer {
    /// Reads the browser's answer.
    ///
    /// # Errors
    /// [`PasskeyError::Malformed`].
    pub fn read(credential: Value) -> Result<Self, PasskeyError> {
        read("credential", credential).map(RegistrationAnswer)
    }
}

fn read<T: DeserializeOwned>(name: &'static str, credential: Value) -> Result<T, PasskeyError> {
    serde_json::from_value(credential).map_err(|_| PasskeyError::Malformed(name))
}

fn broken(error: &impl ToString) -> PasskeyError {
    PasskeyError::Broken(error.to_string())
}

/// The site that passkeys belong to: the dashboard's.
#[derive(Clone, Debug)]
pub struct PasskeySite(Webauthn);

impl PasskeySite {
    /// Returns the site at `dash_url`, or `None` if browsers create no passkeys for it. Passkeys belong to a host name,
    /// and need `https` or `localhost`.
    pub fn at(dash_url: &str) -> Option<Self> {
        let origin = Url::parse(&Url::parse(dash_url).ok()?.origin().ascii_serialization()).ok()?;
        let host = origin.domain()?.to_owned();
        if origin.scheme() != "https" && host != "localhost" {
            return None;
        }
        let site = WebauthnBuilder::new(&host, &origin).ok()?.rp_name(SITE).timeout(CEREMONY_LIFE);
        site.build().ok().map(PasskeySite)
    }

    /// Starts the registration of a passkey for a user who already has the credentials `existing`.
    ///
    /// # Errors
    /// [`PasskeyError::Broken`].
    pub fn start_registration(
        &self,
        sealing: &Sealing,
        user: UserId,
        email: &str,
        name: &str,
        existing: Vec<Vec<u8>>,
        now: Time,
    ) -> Result<StartedCeremony, PasskeyError> {
        let name = if name.is_empty() { email } else { name };
        let started = self.0.start_passkey_registration(Uuid::from_u128(user.0), email, name, Some(existing));
        let (options, state) = started.map_err(|error| broken(&error))?;
        let mut options = serde_json::to_value(options).map_err(|error| broken(&error))?;
        // A discoverable credential can log its user in without an address.
        options["publicKey"]["authenticatorSelection"]["residentKey"] = "preferred".into();
        let state = serde_json::to_value(state).map_err(|error| broken(&error))?;
        started_ceremony(sealing, options, (CeremonyPurpose::Register, Some(user)), state, now)
    }

    /// Finishes a registration.
    ///
    /// # Errors
    /// [`PasskeyError::Refused`] says why the passkey is not accepted.
    pub fn finish_registration(
        &self,
        ceremony: OpenedCeremony,
        answer: &RegistrationAnswer,
    ) -> Result<NewPasskey, PasskeyError> {
        let state: PasskeyRegistration = read("ceremony", ceremony.state)?;
        let passkey = self.0.finish_passkey_registration(&answer.0, &state)?;
        let credential = passkey.cred_id().clone();
        Ok(NewPasskey { credential, passkey: stored(&passkey)? })
    }

    /// Starts a request for a passkey: one of a user's `allowed` credentials, or without a user any that the browser
    /// has for this site.
    ///
    /// # Errors
    /// [`PasskeyError::Broken`].
    pub fn start_log_in(
        &self,
        sealing: &Sealing,
        of: Option<(UserId, Vec<Vec<u8>>)>,
        now: Time,
    ) -> Result<StartedCeremony, PasskeyError> {
        let (options, state) = self.0.start_discoverable_authentication().map_err(|error| broken(&error))?;
        let mut options = serde_json::to_value(options).map_err(|error| broken(&error))?;
        if let Some(options) = options.as_object_mut() {
            // The page decides whether the browser offers passkeys in a field or asks at once.
            options.remove("mediation");
        }
        let whose = match of {
            Some((user, allowed)) => {
                let allowed =
                    allowed.iter().map(|id| json!({"type": "public-key", "id": URL_SAFE_NO_PAD.encode(id)}));
                options["publicKey"]["allowCredentials"] = allowed.collect();
                (CeremonyPurpose::Factor, Some(user))
            }
            None => {
                if let Some(options) = options["publicKey"].as_object_mut() {
                    options.remove("allowCredentials");
                }
                (CeremonyPurpose::LogIn, None)
            }
        };
        let state = serde_json::to_value(state).map_err(|error| broken(&error))?;
        started_ceremony(sealing, options, whose, state, now)
    }

    /// Verifies a browser's answer against a stored passkey: the challenge, the origin, the site, user presence and
    /// verification, the signature, and that the counter has grown. Returns the passkey to store from now on.
    ///
    /// # Errors
    /// [`PasskeyError::Copied`], [`PasskeyError::Refused`].
    pub fn finish_log_in(
        &self,
        ceremony: OpenedCeremony,
        answer: &PasskeyAnswer,
        passkey: &str,
    ) -> Result<String, PasskeyError> {
        let state: DiscoverableAuthentication = read("ceremony", ceremony.state)?;
        let mut passkey: Passkey = serde_json::from_str(passkey).map_err(|error| broken(&error))?;
        let result = self.0.finish_discoverable_authentication_v2(&answer.0, state, &passkey)?;
        passkey.update_credential(&result);
        stored(&passkey)
    }
}

fn stored(passkey: &Passkey) -> Result<String, PasskeyError> {
    serde_json::to_string(passkey).map_err(|error| broken(&error))
}

fn started_ceremony(
    sealing: &Sealing,
    options: Value,
    (purpose, user): (CeremonyPurpose, Option<UserId>),
    state: Value,
    now: Time,
) -> Result<StartedCeremony, PasskeyError> {
    let expires_at = now.plus(CEREMONY_LIFE).micros();
    let held = CeremonyState { purpose, user: user.map(|user| user.to_string()), expires_at, state };
    let held = serde_json::to_vec(&held).map_err(|error| broken(&error))?;
    let mut token = PREFIX.to_owned();
    URL_SAFE_NO_PAD.encode_string(sealing.seal(SEALED_FOR, &held)?, &mut token);
    Ok(StartedCeremony { token, options })
}

/// Opens a ceremony token for `purpose`, and for `user` if the ceremony has one.
///
/// # Errors
/// [`PasskeyError::Ceremony`].
pub fn open(
    sealing: &Sealing,
    token: &str,
    (purpose, user): (CeremonyPurpose, Option<UserId>),
    now: Time,
) -> Result<OpenedCeremony, PasskeyError> {
    let invalid = || PasskeyError::Ceremony;
    let sealed = token.strip_prefix(PREFIX).ok_or_else(invalid)?;
    let sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| invalid())?;
    let held = sealing.open(SEALED_FOR, &sealed).map_err(|_| invalid())?;
    let held: CeremonyState = serde_json::from_slice(&held).map_err(|_| invalid())?;
    let expires_at = Time::from_micros(held.expires_at);
    let is_for_this = held.purpose == purpose && held.user == user.map(|user| user.to_string());
    if !is_for_this || expires_at <= now {
        return Err(invalid());
    }
    Ok(OpenedCeremony { token: Digest::of(token), expires_at, state: held.state })
}

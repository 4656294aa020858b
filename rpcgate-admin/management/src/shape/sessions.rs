//! JSON shapes of log-ins, tokens and sessions.

use crate::access;
use crate::action::sessions::{LogIn, PendingLogIn, SessionTokens};
use crate::identity::device::device;
use crate::identity::password::Typed;
use crate::shape::moment::Moment;
use rpcgate_store::Factors;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The credentials of a log-in.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The address.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The password.
    #[schema(value_type = String, format = Password)]
    pub password: Typed,
}

/// The tokens of a session.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = Tokens)]
pub struct LoggedIn {
    /// The access token, for `Authorization: Bearer`.
    pub token: String,
    /// The refresh token, which can be used once.
    pub refresh_token: String,
    /// The seconds for which the access token is valid.
    #[schema(example = 900)]
    pub expires_in: u64,
}

impl fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedIn").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

impl From<SessionTokens> for LoggedIn {
    fn from(SessionTokens { token, ttl, refresh_token, .. }: SessionTokens) -> Self {
        LoggedIn {
            token: token.expose().to_owned(),
            refresh_token: refresh_token.expose().to_owned(),
            expires_in: ttl.as_secs(),
        }
    }
}

/// A log-in that waits for a second factor.
#[derive(Clone, Serialize, ToSchema)]
pub struct FactorNeeded {
    /// Always true.
    #[schema(example = true)]
    pub mfa_required: bool,
    /// The token that completes the log-in, once. It is valid for nothing else.
    pub mfa_token: String,
    /// The seconds for which the token is valid.
    #[schema(example = 300)]
    pub expires_in: u64,
    /// The factors that the user can give.
    pub methods: Vec<FactorMethod>,
}

impl fmt::Debug for FactorNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactorNeeded").field("methods", &self.methods).finish_non_exhaustive()
    }
}

impl From<PendingLogIn> for FactorNeeded {
    fn from(PendingLogIn { token, ttl, factors }: PendingLogIn) -> Self {
        FactorNeeded {
            mfa_required: true,
            mfa_token: token.expose().to_owned(),
            expires_in: ttl.as_secs(),
            methods: FactorMethod::of(factors),
        }
    }
}

/// A factor that a user can give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactorMethod {
    /// A code of an authenticator app.
    Totp,
    /// A passkey.
    Passkey,
    /// A recovery code.
    RecoveryCode,
}

impl FactorMethod {
    /// Lists the factors that a log-in can be completed with.
    pub fn of(Factors { totp, passkeys, recovery_codes }: Factors) -> Vec<Self> {
        let methods = [
            (FactorMethod::Totp, totp),
            (FactorMethod::Passkey, passkeys > 0),
            (FactorMethod::RecoveryCode, recovery_codes > 0),
        ];
        methods.into_iter().filter_map(|(method, has)| has.then_some(method)).collect()
    }
}

/// The response to a correct password.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum LogInAnswer {
    /// The user has no second factor.
    Opened(LoggedIn),
    /// The user has a second factor.
    Pending(FactorNeeded),
}

impl From<LogIn> for LogInAnswer {
    fn from(log_in: LogIn) -> Self {
        match log_in {
            LogIn::Opened(tokens) => LogInAnswer::Opened(tokens.into()),
            LogIn::Pending(pending) => LogInAnswer::Pending(pending.into()),
        }
    }
}

/// The renewal of a session.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// The newest refresh token.
    pub refresh_token: String,
}

impl fmt::Debug for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refresh")
    }
}

/// A session of the caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AuthSession)]
pub struct SessionJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The time of the log-in.
    #[schema(value_type = String, format = "date-time")]
    pub created_at: Moment,
    /// The time of the last use, to five minutes.
    #[schema(value_type = String, format = "date-time")]
    pub seen_at: Moment,
    /// The expiry time, unless the session is renewed before.
    #[schema(value_type = String, format = "date-time")]
    pub expires_at: Moment,
    /// The client's address at the log-in.
    #[schema(example = "192.0.2.1")]
    pub address: String,
    /// The client's user agent at the log-in.
    #[schema(example = "curl/8.5.0")]
    pub agent: String,
    /// The device that the user agent names.
    #[schema(example = "Firefox on Linux")]
    pub device: String,
    /// The client's address at the last use.
    #[schema(example = "192.0.2.1")]
    pub seen_address: String,
    /// The method of the log-in: `password`, `password+totp`, `password+recovery_code`, `password+passkey` or
    /// `passkey`.
    #[schema(example = "password+totp")]
    pub method: &'static str,
    /// True for the session of this request.
    pub current: bool,
}

impl SessionJson {
    /// Shapes a session of the user of the `current` one.
    pub fn of(current: &access::AuthSession, session: rpcgate_store::Session) -> Self {
        SessionJson {
            id: session.id.to_string(),
            created_at: session.created_at.into(),
            seen_at: session.seen_at.into(),
            expires_at: session.expires_at.into(),
            address: session.address,
            device: device(&session.agent),
            seen_address: session.seen_address,
            agent: session.agent,
            method: session.method.as_str(),
            current: session.id == current.id,
        }
    }
}

//! JSON shapes of the registration and the confirmation of the address.

use crate::action::accounts::{Applicant, PosedChallenge};
use crate::identity::challenge;
use crate::identity::password::Typed;
use crate::identity::verifier::Provider;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// A registration.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// At least 10 characters.
    #[schema(value_type = String, format = Password, min_length = 10, max_length = 256)]
    pub password: Typed,
    /// The display name.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// The solution of the challenge, or the token of the widget.
    pub challenge: String,
}

/// The challenge of a provider, which its widget shows in the browser.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct HostedChallenge {
    /// The public key that the widget needs.
    pub site_key: String,
}

/// The challenge that a registration must solve.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = PosedChallenge)]
pub enum PosedChallengeJson {
    /// A proof of work in ALTCHA's format.
    Altcha(challenge::Challenge),
    /// hCaptcha's widget.
    Hcaptcha(HostedChallenge),
    /// Cloudflare Turnstile's widget, with the action `register`.
    Turnstile(HostedChallenge),
}

impl From<PosedChallenge> for PosedChallengeJson {
    fn from(posed: PosedChallenge) -> Self {
        match posed {
            PosedChallenge::Own(challenge) => PosedChallengeJson::Altcha(challenge),
            PosedChallenge::Hosted { provider: Provider::Hcaptcha, site_key } => {
                PosedChallengeJson::Hcaptcha(HostedChallenge { site_key })
            }
            PosedChallenge::Hosted { provider: Provider::Turnstile, site_key } => {
                PosedChallengeJson::Turnstile(HostedChallenge { site_key })
            }
        }
    }
}

/// A registered user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Registered)]
pub struct RegisteredJson {
    /// The address to which a mail was sent.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The name.
    pub name: String,
    /// Always false: the address is not confirmed yet.
    pub confirmed: bool,
}

impl From<Applicant> for RegisteredJson {
    fn from(Applicant { email, name }: Applicant) -> Self {
        RegisteredJson { email: email.to_string(), name, confirmed: false }
    }
}

/// The confirmation of an address.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// The token from the link.
    pub token: String,
    /// A password that replaces the one from the registration.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password)]
    pub password: Option<Typed>,
}

impl fmt::Debug for Confirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirm")
    }
}

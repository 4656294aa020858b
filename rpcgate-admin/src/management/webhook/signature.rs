//! The signatures of deliveries.
//!
//! `X-Signature` signs the body with the whole text of the secret (`whsec_` and 64 hexadecimal digits). The signatures of
//! Standard Webhooks sign identifier, time and body. There are two for each secret, since its libraries take a secret for
//! `whsec_` and base64: one with the 48 bytes that the 64 digits are in base64, so that the secret works in them as it is
//! shown, and one with the 32 bytes that the digits spell, for receivers that were given the base64 form of these.
//!
//! ```
//! use rpcgate_admin::management::webhook::signature::signature;
//!
//! let secret = b"whsec_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
//! assert!(signature(secret, b"{}").starts_with("sha256="));
//! ```

use crate::management::identity::sealing::{SealedFor, Sealing, SealingError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use rpcgate_core::clock::Time;
use rpcgate_store::Webhook;
use std::fmt;

/// What secrets begin with.
pub const SECRET_PREFIX: &str = "whsec_";
/// The table of an endpoint's secret, for [`Sealing`], and the one of the secret that replaces it.
pub const SEALED_SECRET: &str = "webhooks";
/// See [`SEALED_SECRET`].
pub const SEALED_NEXT_SECRET: &str = "webhooks_next";

/// The secrets that sign the deliveries of an endpoint now.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecrets {
    /// The one that signs.
    pub first: Vec<u8>,
    /// The one that will replace it, and signs beside it until then.
    pub next: Option<Vec<u8>>,
}

impl fmt::Debug for SigningSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecrets").field("rotates", &self.next.is_some()).finish_non_exhaustive()
    }
}

impl SigningSecrets {
    /// The secrets of an endpoint at `now`: once the time of the next one has come, it signs alone.
    ///
    /// # Errors
    /// [`SealingError::Sealed`].
    pub fn of(webhook: &Webhook, sealing: &Sealing, now: Time) -> Result<Self, SealingError> {
        let open = |table, sealed: &[u8]| sealing.open(SealedFor { table, row: webhook.id.0 }, sealed);
        Ok(match &webhook.next_secret {
            Some((next, alone)) if *alone <= now => {
                SigningSecrets { first: open(SEALED_NEXT_SECRET, next)?, next: None }
            }
            next => SigningSecrets {
                first: open(SEALED_SECRET, &webhook.secret)?,
                next: next.as_ref().map(|(next, _)| open(SEALED_NEXT_SECRET, next)).transpose()?,
            },
        })
    }
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut signing = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        signing.update(part);
    }
    signing.sign()
}

/// The value of `X-Signature` for this secret and body.
pub fn signature(secret: &[u8], body: &[u8]) -> String {
    format!("sha256={}", hex::encode(hmac_sha256(secret, &[body])))
}

/// The signatures of Standard Webhooks for this secret, with a space between them: each is `v1,` and the base64 form of the
/// HMAC of identifier, time and body
/// (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>). A receiver accepts a
/// delivery if one of them holds.
pub fn standard_signatures(secret: &[u8], id: &str, seconds: u64, body: &[u8]) -> String {
    let digits = secret.strip_prefix(SECRET_PREFIX.as_bytes()).unwrap_or(secret);
    let seconds = seconds.to_string();
    let sign = |key: &[u8]| {
        let tag = hmac_sha256(key, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(tag))
    };
    let keys = [STANDARD.decode(digits).ok(), hex::decode(digits).ok()];
    let signatures: Vec<_> = keys.into_iter().flatten().map(|key| sign(&key)).collect();
    if signatures.is_empty() { sign(digits) } else { signatures.join(" ") }
}

/// Whether `given` is the value of `X-Signature` for this secret and body, compared in constant time.
pub fn holds(secret: &[u8], body: &[u8], given: &str) -> bool {
    let given = given.strip_prefix("sha256=").and_then(|digits| hex::decode(digits).ok());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    given.is_some_and(|given| hmac::verify(&key, body, &given).is_ok())
}

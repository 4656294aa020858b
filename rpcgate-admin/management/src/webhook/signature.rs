//! The signatures of deliveries.
//!
//! `X-Signature` signs the body with the whole text of the secret (`whsec_` and 64 hexadecimal digits). The signatures
//! of Standard Webhooks sign identifier, time and body. There are two for each secret, because their libraries expect
//! `whsec_` and base64. One is keyed with the 48 bytes that result from reading the 64 digits as base64, so that the
//! secret works unchanged. The other is keyed with the 32 bytes that the digits encode, for receivers that got these in
//! base64.
//!
//! ```
//! use rpcgate_management::webhook::signature::signature;
//!
//! let secret = b"whsec_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
//! assert!(signature(secret, b"{}").starts_with("sha256="));
//! ```

use crate::identity::sealing::{SealedFor, Sealing, SealingError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use rpcgate_core::clock::Time;
use rpcgate_store::Webhook;
use std::fmt;

/// The prefix of secrets.
pub const SECRET_PREFIX: &str = "whsec_";
/// The table name of an endpoint's secret, for [`Sealing`].
pub const SEALED_SECRET: &str = "webhooks";
/// The table name of the secret that replaces it. See [`SEALED_SECRET`].
pub const SEALED_NEXT_SECRET: &str = "webhooks_next";

/// The secrets that currently sign an endpoint's deliveries.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecrets {
    /// The current secret.
    pub first: Vec<u8>,
    /// The secret that will replace it. Until then both sign.
    pub next: Option<Vec<u8>>,
}

impl fmt::Debug for SigningSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecrets").field("rotates", &self.next.is_some()).finish_non_exhaustive()
    }
}

impl SigningSecrets {
    /// Returns the secrets of an endpoint at `now`. Once the next secret takes effect, it signs alone.
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

/// Returns the value of `X-Signature` for this secret and body.
pub fn signature(secret: &[u8], body: &[u8]) -> String {
    format!("sha256={}", hex::encode(hmac_sha256(secret, &[body])))
}

/// Returns the Standard Webhooks signatures for this secret, separated by a space: each is `v1,` and the base64 form of
/// the HMAC of identifier, time and body
/// (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>). A receiver accepts a
/// delivery if one of them is valid.
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

/// Reports whether `given` is the value of `X-Signature` for this secret and body. The comparison takes constant time.
pub fn holds(secret: &[u8], body: &[u8], given: &str) -> bool {
    let given = given.strip_prefix("sha256=").and_then(|digits| hex::decode(digits).ok());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    given.is_some_and(|given| hmac::verify(&key, body, &given).is_ok())
}

//! Authentication and authorisation: passwords, tokens, challenges, roles.

pub mod address;
pub mod challenge;
mod common;
pub mod device;
pub mod form_token;
mod hashing;
pub mod limit;
pub mod passkey;
pub mod password;
pub mod recovery_code;
pub mod refresh;
pub mod request_limits;
pub mod role;
pub mod sealing;
pub mod token;
pub mod token_scope;
pub mod totp;
pub mod typed_code;
pub mod verifier;
pub mod webhook_secret;

use ring::hmac;

/// Derives a key for one purpose, so that a signature is invalid for any other purpose even if the configuration uses
/// the same secret for both.
fn derive(secret: &[u8], purpose: &str) -> [u8; 32] {
    let mut key = [0; 32];
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), purpose.as_bytes());
    key.copy_from_slice(tag.as_ref());
    key
}

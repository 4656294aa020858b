//! With the crates `ring` and `hex`.

use ring::hmac;

/// Whether a delivery comes from rpcgate, by its body as it came and its header `X-Signature`.
pub fn is_genuine(secret: &str, body: &[u8], signature: &str) -> bool {
    let Some(digits) = signature.strip_prefix("sha256=") else { return false };
    let Ok(tag) = hex::decode(digits) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    // Compares in constant time.
    hmac::verify(&key, body, &tag).is_ok()
}

//! Fingerprints of secrets, which show that a secret changed but reveal nothing about it.

use super::Config;
use super::masking::DIGITS;
use super::secret::Secret;
use ring::hmac;
use std::fmt;

/// The context string of the derived key, so that no fingerprint is also a signature for something else.
const PURPOSE: &[u8] = b"rpcgate configuration fingerprints";

const ID_DIGITS: usize = 8;

/// A generator of fingerprints with a key derived from a configured secret, which prevents offline guessing.
pub struct SecretFingerprints {
    key: hmac::Key,
    id: String,
}

impl fmt::Debug for SecretFingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFingerprints").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SecretFingerprints {
    fn new(secret: &Secret) -> Self {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes()), PURPOSE);
        let key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        let id = digits(&hmac::sign(&key, b"id"), ID_DIGITS);
        SecretFingerprints { key, id }
    }

    /// Returns the generators that `config` allows, the preferred one first: from `gateway.key_secret`, which both
    /// programs have, or else `admin.jwt.secret`, and from its former values, for texts from before a rotation.
    ///
    /// ```
    /// use rpcgate_config::{Config, Input, SecretFingerprints};
    ///
    /// let file = "[gateway]\nkey_secret = \"sixteen bytes or more\"\n";
    /// let config = Config::read(&Input { file: Some(("f", file)), ..Input::default() })?;
    /// let fingerprints = SecretFingerprints::of(&config);
    /// assert_eq!(fingerprints.len(), 1);
    /// let shown = config.lines(fingerprints.first()).to_string();
    /// assert!(shown.contains("gateway.key_secret = \"***-") && !shown.contains("sixteen"));
    /// # Ok::<(), rpcgate_config::ConfigErrors>(())
    /// ```
    pub fn of(config: &Config) -> Vec<Self> {
        let gateway = &config.gateway;
        let jwt = &config.admin.jwt;
        let (current, former) = match &gateway.key_secret {
            Some(secret) => (Some(secret), &gateway.former_key_secrets),
            None => (jwt.secret.as_ref(), &jwt.former_secrets),
        };
        current.into_iter().chain(former.iter().filter(|_| current.is_some())).map(Self::new).collect()
    }

    /// Returns the id of the key. Fingerprints of different keys cannot be compared.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tag(&self, secret: &str) -> String {
        digits(&hmac::sign(&self.key, secret.as_bytes()), DIGITS)
    }
}

fn digits(tag: &hmac::Tag, count: usize) -> String {
    let mut digits = hex::encode(tag);
    digits.truncate(count);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    fn config(text: &str) -> Config {
        Config::read(&Input { file: Some(("f", text)), ..Input::default() }).unwrap()
    }

    #[test]
    fn a_fingerprint_depends_on_the_secret_and_on_the_key() {
        let one = SecretFingerprints::new(&Secret::new("one"));
        let other = SecretFingerprints::new(&Secret::new("two"));
        assert_eq!(one.tag("hunter2"), one.tag("hunter2"));
        assert_ne!(one.tag("hunter2"), one.tag("hunter3"));
        assert_ne!(one.tag("hunter2"), other.tag("hunter2"));
        assert_ne!(one.id(), other.id());
        assert!(!format!("{one:?}").contains("key"));
    }

    #[test]
    fn texts_from_before_a_rotation_can_be_compared() {
        let ids = |text: &str| -> Vec<String> {
            SecretFingerprints::of(&config(text)).iter().map(|one| one.id().to_owned()).collect()
        };
        let before = ids("[gateway]\nkey_secret = \"the former secret\"\n");
        let rotated = ids(
            "[gateway]\nkey_secret = \"the current secret\"\nformer_key_secrets = [\"the former secret\"]\n",
        );
        assert_eq!((before.len(), rotated.len(), &rotated[1]), (1, 2, &before[0]));
        assert!(ids("").is_empty(), "without a secret there is no key");
        let jwt = ids("[admin.jwt]\nsecret = \"0123456789abcdef0123456789abcdef\"\n");
        assert_eq!(jwt.len(), 1);
    }
}

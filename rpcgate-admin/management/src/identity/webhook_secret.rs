//! The secrets that sign deliveries to webhook endpoints.
//!
//! ```
//! use rpcgate_management::identity::sealing::Sealing;
//! use rpcgate_management::identity::webhook_secret::{SecretUse, WebhookSecret};
//! use rpcgate_store::WebhookId;
//!
//! let sealing = Sealing::new(b"a secret of at least 32 bytes, for tests");
//! let secret = WebhookSecret::make()?;
//! assert!(secret.expose().starts_with("whsec_"));
//! let sealed = secret.seal(&sealing, WebhookId(7), SecretUse::Current)?;
//! let opened = WebhookSecret::open(&sealing, WebhookId(7), SecretUse::Current, &sealed)?;
//! assert_eq!(opened.expose(), secret.expose());
//! assert!(WebhookSecret::open(&sealing, WebhookId(7), SecretUse::Next, &sealed).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::sealing::{SealedFor, Sealing, SealingError};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_core::secret::NoRandomness;
use rpcgate_store::WebhookId;
use std::fmt;

const PREFIX: &str = "whsec_";

const BYTES: usize = 32;

/// A secret: `whsec_` and 64 hexadecimal digits. The whole text is the signing key.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

/// The use of an endpoint's stored secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretUse {
    /// Signs deliveries.
    Current,
    /// Will replace the current secret.
    Next,
}

impl SecretUse {
    fn row(self, webhook: WebhookId) -> SealedFor<'static> {
        let table = match self {
            SecretUse::Current => "webhooks",
            SecretUse::Next => "webhooks_next",
        };
        SealedFor { table, row: webhook.0 }
    }
}

impl WebhookSecret {
    /// Makes a new secret.
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides none.
    pub fn make() -> Result<Self, NoRandomness> {
        let mut bytes = [0; BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
        Ok(WebhookSecret(format!("{PREFIX}{}", hex::encode(bytes))))
    }

    /// Returns the secret itself, for the answer that shows it and for signatures.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Seals the secret for the database.
    ///
    /// # Errors
    /// [`SealingError::Random`].
    pub fn seal(
        &self,
        sealing: &Sealing,
        webhook: WebhookId,
        purpose: SecretUse,
    ) -> Result<Vec<u8>, SealingError> {
        sealing.seal(purpose.row(webhook), self.0.as_bytes())
    }

    /// Opens an endpoint's stored secret.
    ///
    /// # Errors
    /// [`SealingError::Sealed`] if it was sealed for another row or use, or with another `admin.jwt.secret`.
    pub fn open(
        sealing: &Sealing,
        webhook: WebhookId,
        purpose: SecretUse,
        sealed: &[u8],
    ) -> Result<Self, SealingError> {
        let bytes = sealing.open(purpose.row(webhook), sealed)?;
        String::from_utf8(bytes).map(WebhookSecret).map_err(|_| SealingError::Sealed)
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_the_form_of_the_specification_and_is_new_each_time() {
        let one = WebhookSecret::make().unwrap();
        let other = WebhookSecret::make().unwrap();
        let digits = one.expose().strip_prefix("whsec_").unwrap();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        assert!(digits.len() == 64 && digits.bytes().all(is_digit), "{digits}");
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "***");
    }

    // Shows (Webhooks).
    #[test]
    fn a_sealed_secret_belongs_to_one_endpoint_and_use() {
        let sealing = Sealing::new(&[7; 32]);
        let secret = WebhookSecret::make().unwrap();
        let sealed = secret.seal(&sealing, WebhookId(1), SecretUse::Next).unwrap();
        let open = |id, purpose| WebhookSecret::open(&sealing, WebhookId(id), purpose, &sealed);
        assert_eq!(open(1, SecretUse::Next), Ok(secret.clone()));
        for (id, purpose) in [(2, SecretUse::Next), (1, SecretUse::Current)] {
            assert_eq!(open(id, purpose), Err(SealingError::Sealed));
        }
        let row = SealedFor { table: "webhooks_next", row: 1 };
        assert_eq!(sealing.open(row, &sealed).unwrap(), secret.expose().as_bytes(), "as dispatchers open it");
    }
}

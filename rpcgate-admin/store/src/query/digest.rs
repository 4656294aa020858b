//! The digest under which a secret is stored.

use rpcgate_core::secret::KeyHash;
use std::fmt;

/// The SHA-256 of a value that is not stored itself: a token or a solved challenge. It is not salted, so it does not
/// protect guessable values such as passwords.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the digest of a text.
    pub fn of(text: &str) -> Self {
        Digest(KeyHash::of(text).0)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

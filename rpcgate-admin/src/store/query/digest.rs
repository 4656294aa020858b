//! What a secret is stored under.

use rpcgate_core::secret::KeyHash;
use std::fmt;

/// The SHA-256 of something that is not kept itself: a token, or a solved challenge. There is no salt, so of what is
/// easily guessed, as passwords are, it hides nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of a text.
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

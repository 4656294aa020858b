//! Secrets at rest. A secret that must be readable again, such as that of a TOTP device, is encrypted before it is
//! stored, so that a copy of the database alone reveals nothing.
//!
//! ```
//! use rpcgate_management::identity::sealing::{SealedFor, Sealing};
//!
//! let sealing = Sealing::new(b"a secret of at least 32 bytes, for tests");
//! let sealed = sealing.seal(SealedFor { table: "factors", row: 7 }, b"JBSWY3DPEHPK3PXP")?;
//! assert_eq!(sealing.open(SealedFor { table: "factors", row: 7 }, &sealed)?, b"JBSWY3DPEHPK3PXP");
//! assert!(sealing.open(SealedFor { table: "factors", row: 8 }, &sealed).is_err());
//! # Ok::<(), rpcgate_management::identity::sealing::SealingError>(())
//! ```

use super::derive;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::sync::Arc;

/// The row that a sealed value belongs to. A value that was copied to another row or table cannot be opened there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedFor<'a> {
    /// The table's name.
    pub table: &'a str,
    /// The id of the row.
    pub row: u128,
}

/// The reason why a value cannot be sealed or opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealingError {
    /// The operating system has no random bytes.
    #[error("the operating system has no random bytes")]
    Random,
    /// The value was sealed with another secret or for another row, or was changed.
    #[error(
        "a stored secret cannot be read: it was sealed with another admin.jwt.secret, or has been changed"
    )]
    Sealed,
}

/// Encrypts values with ChaCha20-Poly1305 (RFC 8439) under a key derived from `admin.jwt.secret`. A sealed value is a
/// random nonce of 12 bytes, the encrypted value and its tag of 16 bytes.
#[derive(Clone)]
pub struct Sealing {
    key: LessSafeKey,
    /// Keys of former secrets, which only open.
    former: Arc<[LessSafeKey]>,
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing").finish_non_exhaustive()
    }
}

impl Sealing {
    /// Seals with a key derived from `secret` (`admin.jwt.secret`, the same on all hosts).
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Sealing { key: Self::key(secret), former: Arc::default() }
    }

    /// Also opens values that were sealed with one of the `former` secrets (`admin.jwt.former_secrets`).
    #[must_use]
    pub fn accepting<'s>(self, former: impl IntoIterator<Item = &'s [u8]>) -> Self {
        Sealing { former: former.into_iter().map(Self::key).collect(), ..self }
    }

    fn key(secret: &[u8]) -> LessSafeKey {
        let bytes = derive(secret, "rpcgate sealed values");
        #[expect(clippy::expect_used, reason = "the algorithm's keys have 32 bytes, as many as are derived")]
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("a key of 32 bytes");
        LessSafeKey::new(key)
    }

    /// Reports whether there are former secrets.
    pub fn has_former(&self) -> bool {
        !self.former.is_empty()
    }

    /// Returns the sealed form of `value`, 28 bytes longer and different each time.
    ///
    /// # Errors
    /// [`SealingError::Random`].
    pub fn seal(&self, row: SealedFor<'_>, value: &[u8]) -> Result<Vec<u8>, SealingError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealingError::Random)?;
        let mut sealed = Vec::with_capacity(NONCE_LEN + value.len() + CHACHA20_POLY1305.tag_len());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(value);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, row.authenticated(), &mut sealed[NONCE_LEN..]);
        sealed.extend_from_slice(tag.map_err(|_| SealingError::Sealed)?.as_ref());
        Ok(sealed)
    }

    /// Opens a value that was sealed for this row.
    ///
    /// # Errors
    /// [`SealingError::Sealed`].
    pub fn open(&self, row: SealedFor<'_>, sealed: &[u8]) -> Result<Vec<u8>, SealingError> {
        let keys = std::iter::once(&self.key).chain(&*self.former);
        keys.map(|key| open(key, row, sealed)).find(Result::is_ok).unwrap_or(Err(SealingError::Sealed))
    }

    /// Seals the value again with the current secret, or returns `None` if that secret already seals it.
    ///
    /// # Errors
    /// [`SealingError::Sealed`] if none of the secrets opens it, [`SealingError::Random`].
    pub fn renewed(&self, row: SealedFor<'_>, sealed: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        if open(&self.key, row, sealed).is_ok() {
            return Ok(None);
        }
        self.seal(row, &self.open(row, sealed)?).map(Some)
    }
}

fn open(key: &LessSafeKey, row: SealedFor<'_>, sealed: &[u8]) -> Result<Vec<u8>, SealingError> {
    let (nonce, encrypted) = sealed.split_first_chunk().ok_or(SealingError::Sealed)?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    // A wrong key destroys the buffer, so each key gets a copy.
    let mut value = encrypted.to_vec();
    let opened = key.open_in_place(nonce, row.authenticated(), &mut value);
    let length = opened.map_err(|_| SealingError::Sealed)?.len();
    value.truncate(length);
    Ok(value)
}

impl SealedFor<'_> {
    /// Returns the authenticated data of the tag.
    fn authenticated(self) -> Aad<Vec<u8>> {
        Aad::from(format!("{} {:032x}", self.table, self.row).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROW: SealedFor<'_> = SealedFor { table: "factors", row: 1 };

    fn sealing() -> Sealing {
        Sealing::new(&[7; 32])
    }

    proptest! {
        #[test]
        fn sealed_data_is_opened_again(value in proptest::collection::vec(any::<u8>(), 0..200), row: u128) {
            let row = SealedFor { table: "factors", row };
            let sealed = sealing().seal(row, &value).unwrap();
            prop_assert_eq!(sealed.len(), value.len() + 28);
            prop_assert_eq!(sealing().open(row, &sealed).unwrap(), value);
        }

        #[test]
        fn bytes_that_were_never_sealed_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(sealing().open(ROW, &bytes), Err(SealingError::Sealed));
        }
    }

    #[test]
    fn each_changed_byte_is_noticed() {
        let sealed = sealing().seal(ROW, b"secret").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(sealing().open(ROW, &changed), Err(SealingError::Sealed));
        }
    }

    #[test]
    fn a_value_opens_only_in_its_own_row_and_with_its_own_secret() {
        let sealed = sealing().seal(ROW, b"secret").unwrap();
        for row in [SealedFor { table: "factors", row: 2 }, SealedFor { table: "mails", row: 1 }] {
            assert_eq!(sealing().open(row, &sealed), Err(SealingError::Sealed));
        }
        assert_eq!(Sealing::new(&[8; 32]).open(ROW, &sealed), Err(SealingError::Sealed));
    }

    #[test]
    fn a_former_secret_opens_and_its_values_are_sealed_again_with_the_current_one() {
        let former = [8; 32];
        let current = [9; 32];
        let old = Sealing::new(&former).seal(ROW, b"secret").unwrap();
        let during = Sealing::new(&current).accepting([former.as_slice()]);
        assert!(during.has_former() && !Sealing::new(&current).has_former());
        assert_eq!(during.open(ROW, &old).unwrap(), b"secret");
        let new = during.renewed(ROW, &old).unwrap().unwrap();
        assert_eq!(Sealing::new(&current).open(ROW, &new).unwrap(), b"secret", "it needs the former no more");
        assert_eq!(during.renewed(ROW, &new), Ok(None));
        assert_eq!(sealing().renewed(ROW, &old), Err(SealingError::Sealed));
    }

    #[test]
    fn the_same_value_is_sealed_differently_each_time() {
        let sealing = sealing();
        assert_ne!(sealing.seal(ROW, b"secret").unwrap(), sealing.seal(ROW, b"secret").unwrap());
        assert!(!format!("{sealing:?}").contains("key"));
    }
}

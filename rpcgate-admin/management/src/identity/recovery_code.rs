//! Recovery codes for users who have lost their second factor. Each works once.
//!
//! A code is 16 characters with 5 random bits each. It is stored as its HMAC under a key derived from
//! `admin.jwt.secret`: 80 bits cannot be guessed, and a copy of the database alone does not even allow tries.

use super::derive;
use super::typed_code::code_of;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_config::Secret;
use rpcgate_core::secret::NoRandomness;
use rpcgate_store::{Digest, UserId};
use std::fmt;

/// The number of codes per user.
pub const RECOVERY_CODES: usize = 10;
/// The characters of a code: 32 that are not mistaken for each other.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const CHARACTERS: usize = 16;
const GROUP: usize = 4;

/// Makes and hashes recovery codes.
pub struct RecoveryCodes {
    key: hmac::Key,
    former: Box<[hmac::Key]>,
}

impl fmt::Debug for RecoveryCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryCodes").finish_non_exhaustive()
    }
}

impl RecoveryCodes {
    /// Hashes with a key derived from `secret` (`admin.jwt.secret`, the same on all hosts).
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        RecoveryCodes { key: Self::key(secret), former: Box::default() }
    }

    /// Also accepts codes that were hashed with one of the `former` secrets (`admin.jwt.former_secrets`).
    #[must_use]
    pub fn accepting<'s>(self, former: impl IntoIterator<Item = &'s [u8]>) -> Self {
        RecoveryCodes { former: former.into_iter().map(Self::key).collect(), ..self }
    }

    fn key(secret: &[u8]) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &derive(secret, "rpcgate recovery codes"))
    }

    /// Makes new codes for a user, each with its hash.
    ///
    /// ```
    /// use rpcgate_management::identity::recovery_code::RecoveryCodes;
    /// use rpcgate_store::UserId;
    ///
    /// let codes = RecoveryCodes::new(b"a secret of at least 32 bytes, for tests");
    /// let made = codes.make(UserId(7))?;
    /// assert_eq!(made.len(), 10);
    /// let (code, hash) = &made[0];
    /// assert_eq!(codes.hash(UserId(7), code.expose()), Some(*hash));
    /// assert_ne!(codes.hash(UserId(8), code.expose()), Some(*hash));
    /// # Ok::<(), rpcgate_core::secret::NoRandomness>(())
    /// ```
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides none.
    pub fn make(&self, user: UserId) -> Result<Vec<(Secret, Digest)>, NoRandomness> {
        let mut made = Vec::with_capacity(RECOVERY_CODES);
        for _ in 0..RECOVERY_CODES {
            let mut random = [0; CHARACTERS];
            SystemRandom::new().fill(&mut random).map_err(|_| NoRandomness)?;
            let characters = random.map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
            let groups: Vec<String> = characters.chunks(GROUP).map(String::from_iter).collect();
            made.push((Secret::new(groups.join("-")), tag(&self.key, user, &String::from_iter(characters))));
        }
        Ok(made)
    }

    /// Returns the hash of a typed code, or `None` if it does not have the form of a code. Case, separators and scripts
    /// do not matter ([`code_of`]).
    pub fn hash(&self, user: UserId, typed: &str) -> Option<Digest> {
        plain(typed).map(|plain| tag(&self.key, user, &plain))
    }

    /// Returns the hashes of the code under the former secrets.
    pub fn former_hashes(&self, user: UserId, typed: &str) -> Vec<Digest> {
        let Some(plain) = plain(typed) else { return Vec::new() };
        self.former.iter().map(|key| tag(key, user, &plain)).collect()
    }
}

/// Returns the characters of a typed code, or `None` if it does not have the form of one.
fn plain(typed: &str) -> Option<String> {
    let plain = code_of(typed).to_ascii_lowercase();
    let is_code = plain.len() == CHARACTERS && plain.bytes().all(|byte| ALPHABET.contains(&byte));
    is_code.then_some(plain)
}

fn tag(key: &hmac::Key, user: UserId, plain: &str) -> Digest {
    let tag = hmac::sign(key, format!("{user} {plain}").as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(tag.as_ref());
    Digest(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ADA: UserId = UserId(1);

    fn codes() -> RecoveryCodes {
        RecoveryCodes::new(&[7; 32])
    }

    // Shows (Accounts and second factors).
    #[test]
    fn the_ten_codes_differ_and_are_easy_to_type() {
        let made = codes().make(ADA).unwrap();
        let texts: BTreeSet<&str> = made.iter().map(|(code, _)| code.expose()).collect();
        assert_eq!(texts.len(), RECOVERY_CODES);
        for (code, hash) in &made {
            let text = code.expose();
            assert!(text.len() == 19 && text.split('-').all(|group| group.len() == 4), "{text}");
            assert!(!text.contains(['i', 'l', 'o', 'u']), "{text}");
            for typed in [text.to_uppercase(), text.replace('-', ""), format!(" {} ", text.replace('-', " "))]
            {
                assert_eq!(codes().hash(ADA, &typed), Some(*hash), "{typed}");
            }
        }
    }

    // Shows (Accounts and second factors).
    #[test]
    fn a_code_belongs_to_its_user_and_to_the_secret() {
        let made = codes().make(ADA).unwrap();
        let (code, hash) = &made[0];
        assert_ne!(codes().hash(UserId(2), code.expose()), Some(*hash));
        assert_ne!(RecoveryCodes::new(&[8; 32]).hash(ADA, code.expose()), Some(*hash));
    }

    #[test]
    fn a_text_that_is_not_a_code_is_not_looked_up() {
        let made = codes().make(ADA).unwrap();
        let code = made[0].0.expose();
        for bad in ["", "----", "123456", &code[1..], &format!("{code}0"), &code.replacen(&code[..1], "u", 1)]
        {
            assert_eq!(codes().hash(ADA, bad), None, "{bad}");
        }
        assert_eq!(codes().hash(ADA, &"é".repeat(16)), None);
    }
}

//! API keys: their form, the checksum by which a gateway refuses forged ones without a look-up, and their stored hash.
//!
//! A key is `rpcg_`, 7 characters of id (together the 12-character prefix that may be shown), 32 of secret and 6 of
//! checksum, all of `0-9A-Za-z`. The checksum is keyed: without `gateway.key_secret`, a forged key cannot reach the
//! store.
//!
//! Creating, checking and hashing keys needs the feature `secrets`.

#[cfg(any(test, feature = "secrets"))]
use ring::rand::{SecureRandom, SystemRandom};
#[cfg(any(test, feature = "secrets"))]
use ring::{digest, hmac};
use std::fmt;

const MARK: &str = "rpcg_";
const ID: usize = 7;
const SECRET: usize = 32;
const CHECKSUM: usize = 6;
/// The number of leading characters of a key that a log, a list or a trace may show.
pub const PREFIX: usize = MARK.len() + ID;
/// The length of a key, in characters.
pub const LENGTH: usize = PREFIX + SECRET + CHECKSUM;
#[cfg(any(test, feature = "secrets"))]
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A generator and verifier of keys. All parts of a deployment use the same secret.
#[cfg(any(test, feature = "secrets"))]
pub struct KeyForge {
    secret: hmac::Key,
    /// Former secrets, whose keys are still accepted.
    former: Box<[hmac::Key]>,
}

#[cfg(any(test, feature = "secrets"))]
impl fmt::Debug for KeyForge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyForge")
    }
}

/// The error if the operating system returned no random numbers.
#[cfg(any(test, feature = "secrets"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRandomness;

#[cfg(any(test, feature = "secrets"))]
impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the machine gives no random numbers")
    }
}

#[cfg(any(test, feature = "secrets"))]
impl std::error::Error for NoRandomness {}

#[cfg(any(test, feature = "secrets"))]
impl KeyForge {
    /// Creates a forge with this secret (`gateway.key_secret`).
    ///
    /// ```
    /// use rpcgate_core::secret::KeyForge;
    ///
    /// let forge = KeyForge::new(b"shared by all gateways");
    /// let key = forge.make()?;
    /// assert!(key.starts_with("rpcg_") && key.len() == 50);
    /// assert!(forge.is_genuine(&key));
    /// assert!(!KeyForge::new(b"another secret").is_genuine(&key));
    /// # Ok::<(), rpcgate_core::secret::NoRandomness>(())
    /// ```
    pub fn new(secret: &[u8]) -> Self {
        KeyForge { secret: hmac::Key::new(hmac::HMAC_SHA256, secret), former: Box::default() }
    }

    /// Also accepts keys that were created with one of these secrets (`gateway.former_key_secrets`).
    ///
    /// ```
    /// use rpcgate_core::secret::KeyForge;
    ///
    /// let former = KeyForge::new(b"the former secret");
    /// let rotated = KeyForge::new(b"the current secret").accepting([b"the former secret".as_slice()]);
    /// assert!(rotated.is_genuine(&former.make()?));
    /// assert!(!former.is_genuine(&rotated.make()?));
    /// # Ok::<(), rpcgate_core::secret::NoRandomness>(())
    /// ```
    #[must_use]
    pub fn accepting<'s>(self, former: impl IntoIterator<Item = &'s [u8]>) -> Self {
        let former = former.into_iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret));
        KeyForge { former: former.collect(), ..self }
    }

    /// Creates a key.
    ///
    /// # Errors
    /// Returns [`NoRandomness`] if the operating system returns no random numbers.
    pub fn make(&self) -> Result<String, NoRandomness> {
        let mut key = String::with_capacity(LENGTH);
        key.push_str(MARK);
        random_text(ID + SECRET, &mut key)?;
        let checksum = checksum(&self.secret, &key);
        key.extend(checksum.map(char::from));
        Ok(key)
    }

    /// Reports whether `key` was created with this secret or an accepted former one. It may have been revoked since.
    pub fn is_genuine(&self, key: &str) -> bool {
        let Some((body, checksum)) = key.split_at_checked(LENGTH - CHECKSUM) else { return false };
        use subtle::ConstantTimeEq;
        body.starts_with(MARK)
            && body[MARK.len()..].bytes().all(|b| b.is_ascii_alphanumeric())
            && std::iter::once(&self.secret)
                .chain(&self.former)
                .any(|secret| bool::from(self::checksum(secret, body)[..].ct_eq(checksum.as_bytes())))
    }
}

#[cfg(any(test, feature = "secrets"))]
fn checksum(secret: &hmac::Key, body: &str) -> [u8; CHECKSUM] {
    let tag = hmac::sign(secret, body.as_bytes());
    let mut number = tag.as_ref().iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b));
    std::array::from_fn(|_| {
        let digit = ALPHABET[(number % 62) as usize];
        number /= 62;
        digit
    })
}

/// Appends `count` random characters of `0-9A-Za-z` to `out`.
///
/// # Errors
/// Returns [`NoRandomness`] if the operating system returns no random numbers.
#[cfg(any(test, feature = "secrets"))]
pub fn random_text(count: usize, out: &mut String) -> Result<(), NoRandomness> {
    let random = SystemRandom::new();
    let mut left = count;
    while left > 0 {
        let mut bytes = [0; 64];
        random.fill(&mut bytes).map_err(|_| NoRandomness)?;
        // 62 does not divide 256: bytes above the last whole multiple would favour the first characters.
        for byte in bytes.into_iter().filter(|byte| *byte < 248).take(left) {
            out.push(char::from(ALPHABET[usize::from(byte) % 62]));
            left -= 1;
        }
    }
    Ok(())
}

/// Returns the part of a key that may be shown. Empty for a text that does not have the form of a key.
pub fn shown(key: &str) -> &str {
    if key.len() == LENGTH && key.starts_with(MARK) { key.get(..PREFIX).unwrap_or_default() } else { "" }
}

/// The SHA-256 of a key, under which it is stored. A key has 190 random bits, so no salt is needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// Hashes a key.
    #[cfg(any(test, feature = "secrets"))]
    pub fn of(key: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
        KeyHash(hash)
    }

    /// Parses 64 hexadecimal digits; `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash).ok()?;
        Some(KeyHash(hash))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Shows (Keys): A key has the specified form.
    #[test]
    fn keys_differ_and_have_the_stated_form() {
        let forge = KeyForge::new(b"s");
        let a = forge.make().unwrap();
        let b = forge.make().unwrap();
        assert_ne!(a, b);
        assert_eq!((a.len(), shown(&a).len()), (50, 12));
        assert_eq!(shown("something else"), "");
    }

    #[test]
    fn keys_of_a_former_secret_pass_next_to_those_of_the_current_one() {
        let first = KeyForge::new(b"first");
        let second = KeyForge::new(b"second");
        let both = KeyForge::new(b"third").accepting([b"second".as_slice(), b"first"]);
        let new = both.make().unwrap();
        for key in [first.make().unwrap(), second.make().unwrap(), new.clone()] {
            assert!(both.is_genuine(&key));
        }
        assert!(
            !second.is_genuine(&new) && KeyForge::new(b"third").is_genuine(&new),
            "the current one signs"
        );
        assert!(!both.is_genuine(&KeyForge::new(b"another").make().unwrap()));
    }

    #[test]
    fn a_hash_is_the_sha_256_of_the_key() {
        assert_eq!(
            KeyHash::of("abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(KeyHash::from_hex(&KeyHash::of("abc").to_string()), Some(KeyHash::of("abc")));
        assert_eq!(KeyHash::from_hex("ba78"), None);
    }

    proptest! {
        // Shows (Keys): Forged keys are refused without a look-up.
        #[test]
        fn a_key_with_any_character_changed_is_forged(at in 0usize..LENGTH, to in "[ -~]") {
            let forge = KeyForge::new(b"s");
            let key = forge.make().unwrap();
            let mut changed = key.clone();
            changed.replace_range(at..=at, &to);
            prop_assert_eq!(forge.is_genuine(&changed), changed == key);
        }

        #[test]
        fn no_text_makes_the_check_panic(text in "\\PC*") {
            prop_assert!(!KeyForge::new(b"s").is_genuine(&text));
        }
    }
}

//! Passwords: requirements on new ones, and the stored hashes.
//!
//! Hashes use Argon2id with 19 MiB of memory, two passes and one lane (OWASP's recommendation), and are stored as PHC
//! strings, which contain the parameters. A hash takes tens of milliseconds of a core, which invites denial of service:
//! the numbers of running and of waiting hashes are bounded, and any further request is refused.

use super::common;
use super::hashing::HashingThreads;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error as HashError, PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unicode_normalization::UnicodeNormalization;

/// The minimum number of characters of a new password.
pub const MIN_CHARACTERS: usize = 10;
/// The maximum number of characters of a new password.
pub const MAX_CHARACTERS: usize = 256;
/// The maximum number of bytes of a password. A longer one is not hashed.
pub const MAX_BYTES: usize = 1024;
/// The default number of requests that may wait.
pub const QUEUE: usize = 16;

/// KiB.
const MEMORY: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const ARGON2ID: &str = "argon2id";
/// A dummy hash with the parameters above, verified when the user does not exist, so that both cases take the same
/// time.
const DUMMY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGlzIGhlcmU$bm9ib2R5IGhhcyBhIHBhc3N3b3JkIGxpa2UgdGhpcyE";

/// The reason why a text cannot be a new password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeakPassword {
    /// It has too few characters.
    #[error("the password must have at least {MIN_CHARACTERS} characters")]
    Short,
    /// It has too many characters.
    #[error("the password must have at most {MAX_CHARACTERS} characters")]
    Long,
    /// It is a common password.
    #[error("the password is too common")]
    Common,
    /// It contains no visible character.
    #[error("the password must not consist of blanks")]
    Blank,
}

/// A password as typed. It may be any text, and is never logged or shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Typed(Box<str>);

impl Typed {
    /// Accepts it as a new password.
    ///
    /// # Errors
    /// [`WeakPassword`] says what is wrong with it.
    pub fn choose(self) -> Result<Password, WeakPassword> {
        // A text that is too long is not copied. Normalised text is never three times as long.
        let text = if self.0.len() > 4 * MAX_BYTES { self.0 } else { self.normalised().into() };
        let characters = text.chars().count();
        if characters < MIN_CHARACTERS {
            Err(WeakPassword::Short)
        } else if characters > MAX_CHARACTERS || text.len() > MAX_BYTES {
            Err(WeakPassword::Long)
        } else if text.chars().all(|c| c.is_whitespace() || c.is_control()) {
            Err(WeakPassword::Blank)
        } else if common::is_common(&text) {
            Err(WeakPassword::Common)
        } else {
            Ok(Password(Typed(text)))
        }
    }

    /// Returns the text as it is hashed: in Unicode NFC (NIST SP 800-63B, 5.1.1.2). Keyboards write the same letter in
    /// different ways, for example `ü` as one character or as `u` with a mark.
    fn normalised(&self) -> String {
        self.0.nfc().collect()
    }
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<&str> for Typed {
    fn from(text: &str) -> Self {
        Typed(text.into())
    }
}

impl From<String> for Typed {
    fn from(text: String) -> Self {
        Typed(text.into())
    }
}

impl From<Password> for Typed {
    fn from(password: Password) -> Self {
        password.0
    }
}

/// A password that meets the requirements. It is never logged or shown.
#[derive(Clone)]
pub struct Password(Typed);

impl Password {
    /// Accepts `text` as a new password.
    ///
    /// ```
    /// use rpcgate_management::identity::password::{Password, WeakPassword};
    ///
    /// assert_eq!(format!("{:?}", Password::new("correct horse")?), "***");
    /// assert_eq!(Password::new("battery").unwrap_err(), WeakPassword::Short);
    /// # Ok::<(), WeakPassword>(())
    /// ```
    ///
    /// # Errors
    /// [`WeakPassword`] says what is wrong with it.
    pub fn new(text: impl Into<Typed>) -> Result<Self, WeakPassword> {
        text.into().choose()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why a hash or a verification has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// Too many requests wait. A later try may succeed.
    #[error("too many passwords are being checked at the moment")]
    Busy,
    /// The hash cannot be computed, or the stored one cannot be parsed. The text shows neither.
    #[error("a password cannot be checked: {0}")]
    Failed(String),
}

/// A reservation for a hash, which counts as computed or waiting.
#[derive(Debug)]
pub struct HashPermit {
    _permit: OwnedSemaphorePermit,
}

/// Hashes passwords, a few at a time. Clones share the limits.
#[derive(Clone, Debug)]
pub struct Passwords {
    argon: Argon2<'static>,
    /// One permit for each running or waiting hash.
    permits: Arc<Semaphore>,
    /// One permit for each running hash.
    running: Arc<Semaphore>,
    threads: Arc<HashingThreads>,
    computed: Arc<AtomicU64>,
}

impl Passwords {
    /// Runs at most `threads` hashes at once (at least one), while `queue` more may wait (see [`QUEUE`]).
    pub fn new(threads: usize, queue: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS / 2);
        let permits = threads.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        let params = Params::new(MEMORY, PASSES, LANES, None).unwrap_or_default();
        Passwords {
            argon: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
            permits: Arc::new(Semaphore::new(permits)),
            running: Arc::new(Semaphore::new(threads)),
            threads: Arc::new(HashingThreads::new(threads)),
            computed: Arc::default(),
        }
    }

    /// Reserves a hash, so that the work before it, such as reading the user, is bounded too.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait.
    pub fn reserve(&self) -> Result<HashPermit, PasswordError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.map(|permit| HashPermit { _permit: permit }).map_err(|_| PasswordError::Busy)
    }

    /// Returns the PHC string to store for `password`. Each has a new salt.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait.
    pub async fn hash(&self, password: Password) -> Result<String, PasswordError> {
        let text = password.0.normalised();
        self.compute(self.reserve()?, move |argon| {
            argon.hash_password(text.as_bytes()).map(|hash| hash.to_string()).map_err(failed)
        })
        .await
    }

    /// Like [`hash`](Self::hash), for a password that was just verified, which need not meet the current requirements.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait.
    pub async fn renew(&self, verified: Typed) -> Result<String, PasswordError> {
        self.hash(Password(verified)).await
    }

    /// Reports whether `password` matches the hash `stored`. If the user does not exist or has no password, `stored` is
    /// `None` and the result is false. A hash is still computed, so that the time does not reveal it.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait, [`PasswordError::Failed`] if `stored` is not a PHC string of Argon2.
    pub async fn verify(
        &self,
        password: impl Into<Typed>,
        stored: Option<&str>,
    ) -> Result<bool, PasswordError> {
        self.verify_with(self.reserve()?, password, stored).await
    }

    /// Like [`verify`](Self::verify), with a reservation. It compares the normalised password first and then the
    /// password as typed, because older hashes were made without normalisation.
    ///
    /// # Errors
    /// [`PasswordError::Failed`] if `stored` is not a PHC string of Argon2.
    pub async fn verify_with(
        &self,
        permit: HashPermit,
        password: impl Into<Typed>,
        stored: Option<&str>,
    ) -> Result<bool, PasswordError> {
        let Typed(mut password) = password.into();
        let known = stored.is_some() && password.len() <= MAX_BYTES;
        if password.len() > MAX_BYTES {
            password = Box::default();
        }
        let stored = stored.filter(|_| known).unwrap_or(DUMMY);
        let hash = PasswordHash::new(stored).map_err(|error| PasswordError::Failed(error.to_string()))?;
        let normalised = Typed(password.clone()).normalised();
        // Only the typed text decides whether there are two forms, so the time reveals nothing about the stored hash.
        let as_typed = (normalised != *password).then_some(password);
        self.compute(permit, move |argon| {
            let matches = |text: &str| match argon.verify_password(text.as_bytes(), &hash) {
                Ok(()) => Ok(known),
                Err(HashError::PasswordInvalid) => Ok(false),
                Err(error) => Err(failed(error)),
            };
            if matches(&normalised)? {
                return Ok(true);
            }
            as_typed.map_or(Ok(false), |text| matches(&text))
        })
        .await
    }

    /// Reports whether `stored` was made with less effort than current hashes, so that the next log-in, which has the
    /// password, should replace it.
    pub fn needs_renewal(&self, stored: &str) -> bool {
        let Ok(hash) = PasswordHash::new(stored) else { return true };
        let Ok(params) = Params::try_from(&hash) else { return true };
        hash.algorithm.as_str() != ARGON2ID
            || hash.version != Some(Version::V0x13.into())
            || params.m_cost() < MEMORY
            || params.t_cost() < PASSES
    }

    /// Returns the number of hashes computed since the start, including those for unknown users.
    pub fn computed(&self) -> u64 {
        self.computed.load(Relaxed)
    }

    /// Runs `work` on a hashing thread. Its permits are held until the work has ended, even if the caller is cancelled.
    async fn compute<T: Send + 'static>(
        &self,
        permit: HashPermit,
        work: impl FnOnce(&Argon2<'static>) -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|_| PasswordError::Busy)?;
        let argon = self.argon.clone();
        let computed = Arc::clone(&self.computed);
        let work = move || {
            let done = work(&argon);
            computed.fetch_add(1, Relaxed);
            drop((running, permit));
            done
        };
        self.threads.run(work).await.map_err(|why| PasswordError::Failed(why.into()))?
    }
}

fn failed(error: HashError) -> PasswordError {
    PasswordError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use argon2::password_hash::CustomizedPasswordHasher;

    fn weak_hash(password: &str, algorithm: &str) -> String {
        let params = Params::new(64, 1, 1, None).unwrap();
        let hash = Argon2::default().hash_password_customized(
            password.as_bytes(),
            b"a salt of sixtee",
            Some(algorithm),
            None,
            params,
        );
        hash.unwrap().to_string()
    }

    fn characters(count: u32) -> String {
        (0..count).filter_map(|number| char::from_u32(0x1_f300 + number)).collect()
    }

    // Shows (Accounts and second factors).
    #[test]
    fn a_new_password_has_10_to_256_characters_that_are_not_all_blank_and_is_not_common() {
        for (text, found) in [
            ("123456789".to_owned(), Some(WeakPassword::Short)),
            ("ä".repeat(9), Some(WeakPassword::Short)),
            ("äöüßéèêñçø".into(), None),
            ("1234567890".into(), Some(WeakPassword::Common)),
            ("Password2026!".into(), Some(WeakPassword::Common)),
            (" \t\u{3000}\u{a0}      ".into(), Some(WeakPassword::Blank)),
            ("\0".repeat(10), Some(WeakPassword::Blank)),
            ("with blank".into(), None),
            (characters(256), None),
            (characters(257), Some(WeakPassword::Long)),
            ("a".repeat(257), Some(WeakPassword::Long)),
        ] {
            assert_eq!(Password::new(text.as_str()).err(), found, "{text}");
        }
        assert_eq!(WeakPassword::Short.to_string(), "the password must have at least 10 characters");
        assert_eq!(WeakPassword::Long.to_string(), "the password must have at most 256 characters");
    }

    // Shows (Accounts and second factors): Passwords and one-time codes are the same on every keyboard.
    #[tokio::test]
    async fn a_password_is_the_same_on_every_keyboard_and_old_ones_stay_valid() {
        let passwords = Passwords::new(1, 9);
        let composed = "Gr\u{fc}\u{df}e f\u{fc}r Zo\u{eb}";
        let decomposed = "Gru\u{308}\u{df}e fu\u{308}r Zoe\u{308}";
        for chosen in [composed, decomposed] {
            let stored = passwords.hash(Password::new(chosen).unwrap()).await.unwrap();
            for typed in [composed, decomposed] {
                assert!(passwords.verify(typed, Some(&stored)).await.unwrap(), "{chosen} {typed}");
            }
            assert!(!passwords.verify("Grusse fur Zoe", Some(&stored)).await.unwrap());
        }
        let old = weak_hash(decomposed, ARGON2ID);
        assert!(passwords.verify(decomposed, Some(&old)).await.unwrap(), "the very bytes that were set");
        assert!(!passwords.verify(composed, Some(&old)).await.unwrap());
        let renewed = passwords.renew(Typed::from(decomposed)).await.unwrap();
        assert!(passwords.verify(composed, Some(&renewed)).await.unwrap());
    }

    #[test]
    fn nothing_shows_a_password() {
        let password = Password::new("correct horse").unwrap();
        assert_eq!(format!("{password:?} {:?}", Some(Typed::from("correct horse"))), "*** Some(***)");
        let typed: Typed = serde_json::from_str(r#""correct horse""#).unwrap();
        assert_eq!(format!("{typed:#?}"), "***");
    }

    #[tokio::test]
    async fn a_hash_verifies_its_password_and_no_other() {
        let passwords = Passwords::new(2, QUEUE);
        let password = Password::new("correct horse").unwrap();
        let one = passwords.hash(password.clone()).await.unwrap();
        let two = passwords.hash(password).await.unwrap();
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_ne!(one, two);
        assert!(passwords.verify("correct horse", Some(&one)).await.unwrap());
        assert!(!passwords.verify("correct horsE", Some(&one)).await.unwrap());
        assert!(!passwords.verify("", Some(&one)).await.unwrap());
        assert!(!passwords.needs_renewal(&one));
        assert!(!one.contains("correct") && !format!("{passwords:?}").contains("correct"));
    }

    #[tokio::test]
    async fn an_unknown_user_costs_a_hash_with_the_same_parameters() {
        let passwords = Passwords::new(1, QUEUE);
        assert!(!passwords.needs_renewal(DUMMY));
        let nobody = PasswordHash::new(DUMMY).unwrap();
        let real = PasswordHash::new(&passwords.hash(Password::new("correct horse").unwrap()).await.unwrap())
            .unwrap();
        assert_eq!(nobody.params, real.params);
        assert_eq!(nobody.hash.unwrap().len(), real.hash.unwrap().len());
        assert_eq!(passwords.computed(), 1);
        assert!(!passwords.verify("anything at all", None).await.unwrap());
        assert_eq!(passwords.computed(), 2);
    }

    #[tokio::test]
    async fn a_password_too_long_to_hash_is_wrong_and_not_cut() {
        let passwords = Passwords::new(1, QUEUE);
        let hash = weak_hash("correct horse", ARGON2ID);
        assert!(passwords.verify("correct horse", Some(&hash)).await.unwrap());
        let long = "x".repeat(MAX_BYTES + 1);
        let before = passwords.computed();
        let hash = weak_hash("", ARGON2ID);
        assert!(!passwords.verify(long.as_str(), Some(&hash)).await.unwrap());
        assert_eq!(passwords.computed(), before + 1, "and costs as much as any");
    }

    #[tokio::test]
    async fn a_weaker_hash_verifies_and_asks_for_renewal() {
        let passwords = Passwords::new(1, QUEUE);
        for algorithm in [ARGON2ID, "argon2i"] {
            let old = weak_hash("correct horse", algorithm);
            assert!(passwords.verify("correct horse", Some(&old)).await.unwrap(), "{old}");
            assert!(!passwords.verify("correct horsE", Some(&old)).await.unwrap(), "{old}");
            assert!(passwords.needs_renewal(&old), "{old}");
            let renewed = passwords.renew("correct horse".into()).await.unwrap();
            assert!(!passwords.needs_renewal(&renewed), "{renewed}");
        }
    }

    #[tokio::test]
    async fn an_unreadable_stored_hash_is_an_error_and_not_a_wrong_password() {
        let passwords = Passwords::new(1, QUEUE);
        for stored in ["", "secret", "$argon2id$v=19$m=1,t=0,p=9$c2FsdHNhbHQ$aGFzaGhhc2g", "$5$x$y"] {
            let found = passwords.verify("secret", Some(stored)).await;
            assert!(
                matches!(&found, Err(PasswordError::Failed(why)) if !why.contains("secret")),
                "{found:?}"
            );
            assert!(passwords.needs_renewal(stored));
        }
    }

    // Shows (Accounts and second factors).
    #[tokio::test]
    async fn beyond_the_queue_a_password_is_refused_at_once() {
        let passwords = Passwords::new(1, 2);
        let hash = weak_hash("correct horse", ARGON2ID);
        // A hash that runs until the test ends.
        let running = (
            Arc::clone(&passwords.permits).try_acquire_owned().unwrap(),
            Arc::clone(&passwords.running).try_acquire_owned().unwrap(),
        );
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let passwords = passwords.clone();
                let hash = hash.clone();
                tokio::spawn(async move { passwords.verify("correct horse", Some(&hash)).await })
            })
            .collect();
        while passwords.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.verify("correct horse", Some(&hash)).await, Err(PasswordError::Busy));
        assert_eq!(passwords.verify("correct horse", None).await, Err(PasswordError::Busy));
        assert_eq!(passwords.computed(), 0);
        drop(running);
        for one in waiting {
            assert_eq!(one.await.unwrap(), Ok(true));
        }
        assert_eq!(passwords.verify("correct horse", Some(&hash)).await, Ok(true));
    }

    #[tokio::test]
    async fn a_request_that_leaves_the_queue_frees_its_permit() {
        let passwords = Passwords::new(1, 1);
        let running = Arc::clone(&passwords.running).try_acquire_owned().unwrap();
        let waiting = {
            let passwords = passwords.clone();
            tokio::spawn(async move { passwords.verify("x", None).await })
        };
        while passwords.permits.available_permits() > 1 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(passwords.permits.available_permits(), 2);
        drop(running);
    }
}

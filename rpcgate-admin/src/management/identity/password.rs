//! Passwords: what a new one must be like, and the hashes they are stored as.
//!
//! A hash is made with Argon2id, 19 MiB of memory, two passes, one lane (OWASP's recommendation), and stored as a PHC
//! string that carries its parameters. It takes tens of milliseconds of a core, so hashing is a thing to attack a
//! service with: only so many hashes are computed at once, only so many wait, and what comes then is refused.

use super::common;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error as HashError, PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::Semaphore;

/// The fewest characters of a new password.
pub const LEAST: usize = 10;
/// The most characters of a new password.
pub const MOST: usize = 256;
/// The most bytes of a password. A longer one is not hashed.
pub const MOST_BYTES: usize = 1024;
/// How many may wait for a hash, for want of a better number.
pub const QUEUE: usize = 16;

/// KiB of memory.
const MEMORY: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const ARGON2ID: &str = "argon2id";
/// A hash of no password, computed in place of that of somebody who does not exist. Its parameters are those above.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGlzIGhlcmU$bm9ib2R5IGhhcyBhIHBhc3N3b3JkIGxpa2UgdGhpcyE";

/// Why a text cannot be a new password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeakPassword {
    /// It has too few characters.
    #[error("the password must have at least {LEAST} characters")]
    Short,
    /// It has too many characters.
    #[error("the password must have at most {MOST} characters")]
    Long,
    /// It is one of those that are tried first.
    #[error("the password is too common")]
    Common,
    /// There is nothing in it that can be seen.
    #[error("the password must not consist of blanks")]
    Blank,
}

/// What somebody typed as a password. It may be anything, and nothing shows it.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Typed(Box<str>);

impl Typed {
    /// Takes it as a new password.
    ///
    /// # Errors
    /// [`WeakPassword`] says what is wrong with it.
    pub fn choose(self) -> Result<Password, WeakPassword> {
        let characters = self.0.chars().count();
        if characters < LEAST {
            Err(WeakPassword::Short)
        } else if characters > MOST || self.0.len() > MOST_BYTES {
            Err(WeakPassword::Long)
        } else if self.0.chars().all(|c| c.is_whitespace() || c.is_control()) {
            Err(WeakPassword::Blank)
        } else if common::is_common(&self.0) {
            Err(WeakPassword::Common)
        } else {
            Ok(Password(self))
        }
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

/// A password that is good enough to be somebody's. Nothing shows it.
#[derive(Clone)]
pub struct Password(Typed);

impl Password {
    /// Takes `text` as a new password.
    ///
    /// ```
    /// use rpcgate_admin::management::identity::password::{Password, WeakPassword};
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

/// Why there is no hash, or no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// Too many wait already. Trying again in a few seconds may help.
    #[error("too many passwords are being checked at the moment")]
    Busy,
    /// The hash cannot be computed, or the stored one cannot be read. The text shows neither.
    #[error("a password cannot be checked: {0}")]
    Failed(String),
}

/// Hashes passwords, a few at a time. Clones share the places.
#[derive(Clone, Debug)]
pub struct Passwords {
    argon: Argon2<'static>,
    /// One for each that is computed or waits.
    seats: Arc<Semaphore>,
    /// One for each that is computed.
    threads: Arc<Semaphore>,
    computed: Arc<AtomicU64>,
}

impl Passwords {
    /// Computes at most `threads` hashes at once, at least one, while `queue` more wait (see [`QUEUE`]).
    pub fn new(threads: usize, queue: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS / 2);
        let seats = threads.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        let params = Params::new(MEMORY, PASSES, LANES, None).unwrap_or_default();
        Passwords {
            argon: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
            seats: Arc::new(Semaphore::new(seats)),
            threads: Arc::new(Semaphore::new(threads)),
            computed: Arc::default(),
        }
    }

    /// The PHC string to store for `password`, salted anew each time.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait.
    pub async fn hash(&self, password: Password) -> Result<String, PasswordError> {
        self.compute(move |argon| {
            argon.hash_password(password.0.0.as_bytes()).map(|hash| hash.to_string()).map_err(failed)
        })
        .await
    }

    /// The same for a password that was just found to be right. It may be one that nobody could choose today.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait.
    pub async fn renew(&self, verified: Typed) -> Result<String, PasswordError> {
        self.hash(Password(verified)).await
    }

    /// Whether `password` is the one that `stored` was made of. For a `stored` of `None`, somebody who does not
    /// exist or has no password, a hash is computed as well, so that the time taken does not tell, and the answer
    /// is no.
    ///
    /// # Errors
    /// [`PasswordError::Busy`] if too many wait, [`PasswordError::Failed`] if `stored` is no PHC string of Argon2.
    pub async fn verify(
        &self,
        password: impl Into<Typed>,
        stored: Option<&str>,
    ) -> Result<bool, PasswordError> {
        let Typed(mut password) = password.into();
        let known = stored.is_some() && password.len() <= MOST_BYTES;
        if password.len() > MOST_BYTES {
            password = Box::default();
        }
        let stored = stored.filter(|_| known).unwrap_or(NOBODY);
        let hash = PasswordHash::new(stored).map_err(|error| PasswordError::Failed(error.to_string()))?;
        self.compute(move |argon| match argon.verify_password(password.as_bytes(), &hash) {
            Ok(()) => Ok(known),
            Err(HashError::PasswordInvalid) => Ok(false),
            Err(error) => Err(failed(error)),
        })
        .await
    }

    /// Whether `stored` was made with less effort than hashes are made with now: after the next log-in, when the
    /// password is at hand, a new one should take its place.
    pub fn wants_renewal(&self, stored: &str) -> bool {
        let Ok(hash) = PasswordHash::new(stored) else { return true };
        let Ok(params) = Params::try_from(&hash) else { return true };
        hash.algorithm.as_str() != ARGON2ID
            || hash.version != Some(Version::V0x13.into())
            || params.m_cost() < MEMORY
            || params.t_cost() < PASSES
    }

    /// How many hashes were computed since the start, those for nobody among them.
    pub fn computed(&self) -> u64 {
        self.computed.load(Relaxed)
    }

    /// Runs `work` on a thread of its own. Its seat and its thread stay taken until it has ended, also if nobody
    /// waits for it any more.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Argon2<'static>) -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let thread = Arc::clone(&self.threads).acquire_owned().await.map_err(|_| PasswordError::Busy)?;
        let (argon, computed) = (self.argon.clone(), Arc::clone(&self.computed));
        let work = move || {
            let done = work(&argon);
            computed.fetch_add(1, Relaxed);
            drop((thread, seat));
            done
        };
        let ended = tokio::task::spawn_blocking(work).await;
        ended.map_err(|_| PasswordError::Failed("the thread ended early".into()))?
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

    /// So many characters of four bytes each.
    fn characters(count: u32) -> String {
        (0..count).filter_map(|number| char::from_u32(0x1_f300 + number)).collect()
    }

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
        let (one, two) =
            (passwords.hash(password.clone()).await.unwrap(), passwords.hash(password).await.unwrap());
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_ne!(one, two);
        assert!(passwords.verify("correct horse", Some(&one)).await.unwrap());
        assert!(!passwords.verify("correct horsE", Some(&one)).await.unwrap());
        assert!(!passwords.verify("", Some(&one)).await.unwrap());
        assert!(!passwords.wants_renewal(&one));
        assert!(!one.contains("correct") && !format!("{passwords:?}").contains("correct"));
    }

    #[tokio::test]
    async fn somebody_unknown_costs_a_hash_of_the_same_parameters() {
        let passwords = Passwords::new(1, QUEUE);
        assert!(!passwords.wants_renewal(NOBODY));
        let (nobody, real) = (
            PasswordHash::new(NOBODY).unwrap(),
            PasswordHash::new(&passwords.hash(Password::new("correct horse").unwrap()).await.unwrap())
                .unwrap(),
        );
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
        let long = "x".repeat(MOST_BYTES + 1);
        let (before, hash) = (passwords.computed(), weak_hash("", ARGON2ID));
        assert!(!passwords.verify(long.as_str(), Some(&hash)).await.unwrap());
        assert_eq!(passwords.computed(), before + 1, "and costs as much as any");
    }

    #[tokio::test]
    async fn a_weaker_hash_verifies_and_wants_renewal() {
        let passwords = Passwords::new(1, QUEUE);
        for algorithm in [ARGON2ID, "argon2i"] {
            let old = weak_hash("correct horse", algorithm);
            assert!(passwords.verify("correct horse", Some(&old)).await.unwrap(), "{old}");
            assert!(!passwords.verify("correct horsE", Some(&old)).await.unwrap(), "{old}");
            assert!(passwords.wants_renewal(&old), "{old}");
            let renewed = passwords.renew("correct horse".into()).await.unwrap();
            assert!(!passwords.wants_renewal(&renewed), "{renewed}");
        }
    }

    #[tokio::test]
    async fn what_is_stored_but_no_hash_is_an_error_and_no_wrong_password() {
        let passwords = Passwords::new(1, QUEUE);
        for stored in ["", "secret", "$argon2id$v=19$m=1,t=0,p=9$c2FsdHNhbHQ$aGFzaGhhc2g", "$5$x$y"] {
            let found = passwords.verify("secret", Some(stored)).await;
            assert!(
                matches!(&found, Err(PasswordError::Failed(why)) if !why.contains("secret")),
                "{found:?}"
            );
            assert!(passwords.wants_renewal(stored));
        }
    }

    #[tokio::test]
    async fn beyond_the_queue_a_password_is_refused_at_once() {
        let passwords = Passwords::new(1, 2);
        let hash = weak_hash("correct horse", ARGON2ID);
        // A hash that is being computed, for as long as the test likes.
        let running = (
            Arc::clone(&passwords.seats).try_acquire_owned().unwrap(),
            Arc::clone(&passwords.threads).try_acquire_owned().unwrap(),
        );
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let (passwords, hash) = (passwords.clone(), hash.clone());
                tokio::spawn(async move { passwords.verify("correct horse", Some(&hash)).await })
            })
            .collect();
        while passwords.seats.available_permits() > 0 {
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
    async fn who_leaves_the_queue_frees_the_seat() {
        let passwords = Passwords::new(1, 1);
        let running = Arc::clone(&passwords.threads).try_acquire_owned().unwrap();
        let waiting = {
            let passwords = passwords.clone();
            tokio::spawn(async move { passwords.verify("x", None).await })
        };
        while passwords.seats.available_permits() > 1 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(passwords.seats.available_permits(), 2);
        drop(running);
    }
}

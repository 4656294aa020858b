//! The challenge that a new account must solve: a proof of work in ALTCHA's first format.
//!
//! A challenge is the SHA-256 of a salt and a secret number. The browser tries numbers until the hash matches, which is
//! cheap for one person and expensive for a thousand accounts. The salt contains the expiry and the challenge is
//! signed, so the server keeps no state. The store accepts each solution only once: see [`Solved`].

use super::derive;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::NoRandomness;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use subtle::ConstantTimeEq;
use utoipa::ToSchema;

const ALGORITHM: &str = "SHA-256";
/// The time in which a challenge must be solved: long enough to fill in a form.
pub const LIFE: Duration = Duration::from_secs(600);
const SALT_BYTES: usize = 16;
/// The maximum length of a solution in bytes. A widget's solution has about 400.
const MAX_LEN: usize = 2048;

/// A challenge in the form that the ALTCHA widget reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Challenge {
    /// Always `SHA-256`.
    pub algorithm: String,
    /// SHA-256 of the salt and the secret number, in hexadecimal.
    pub challenge: String,
    /// The largest number to try.
    pub maxnumber: u32,
    /// The text to which the number is appended.
    pub salt: String,
    /// Proves that this service issued the challenge.
    pub signature: String,
}

/// A solution as the widget sends it, in base64. Other members, such as the time taken, are ignored.
#[derive(Serialize, Deserialize)]
struct Solution {
    algorithm: String,
    challenge: String,
    number: u64,
    salt: String,
    signature: String,
}

/// A solved challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Solved {
    /// The challenge itself, by which the store accepts its solution only once.
    pub digest: [u8; 32],
    /// The time after which the challenge need not be remembered.
    pub expires_at: Time,
}

/// The reason why a solution is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSolution {
    /// It cannot be parsed.
    #[error("the challenge's solution is malformed")]
    Malformed,
    /// It is for another algorithm.
    #[error("the challenge's algorithm must be {ALGORITHM}")]
    Algorithm,
    /// The number is wrong.
    #[error("the challenge is not solved")]
    Wrong,
    /// This service did not issue the challenge.
    #[error("the challenge was not set here")]
    Forged,
    /// The challenge has expired.
    #[error("the challenge has expired, ask for a new one")]
    Expired,
}

/// Issues challenges and checks solutions.
pub struct Challenges {
    key: hmac::Key,
    former: Box<[hmac::Key]>,
    difficulty: u32,
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenges").field("difficulty", &self.difficulty).finish_non_exhaustive()
    }
}

impl Challenges {
    /// Issues challenges whose number is at most `difficulty` (`admin.challenge.difficulty`), signed with a key derived
    /// from `secret`.
    ///
    /// ```
    /// use rpcgate_management::identity::challenge::{BadSolution, Challenges, LIFE, solve};
    /// use rpcgate_core::clock::Time;
    ///
    /// let challenges = Challenges::new(b"shared by all hosts", 1_000);
    /// let now = Time::from_secs(1_800_000_000);
    /// let solution = solve(&challenges.issue(now)?).unwrap_or_default();
    /// assert!(challenges.check(&solution, now).is_ok());
    /// assert_eq!(challenges.check(&solution, now.plus(LIFE)), Err(BadSolution::Expired));
    /// # Ok::<(), rpcgate_core::secret::NoRandomness>(())
    /// ```
    pub fn new(secret: &[u8], difficulty: u32) -> Self {
        Challenges { key: Self::key(secret), former: Box::default(), difficulty }
    }

    /// Also accepts challenges that were signed with one of the `former` secrets.
    #[must_use]
    pub fn accepting<'s>(self, former: impl IntoIterator<Item = &'s [u8]>) -> Self {
        Challenges { former: former.into_iter().map(Self::key).collect(), ..self }
    }

    fn key(secret: &[u8]) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &derive(secret, "rpcgate challenge"))
    }

    /// Issues a challenge that is valid for [`LIFE`].
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides none.
    pub fn issue(&self, now: Time) -> Result<Challenge, NoRandomness> {
        let random = SystemRandom::new();
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt).map_err(|_| NoRandomness)?;
        // The ampersand separates the number's digits from those of the expiry.
        let salt = format!("{}?expires={}&", hex::encode(salt), now.plus(LIFE).secs());
        let mut number = [0; 8];
        random.fill(&mut number).map_err(|_| NoRandomness)?;
        // The bias of the modulo is below one in 2³².
        let number = u64::from_be_bytes(number) % (u64::from(self.difficulty) + 1);
        let challenge = hex::encode(challenge(&salt, number));
        let signature = hex::encode(hmac::sign(&self.key, challenge.as_bytes()));
        Ok(Challenge { algorithm: ALGORITHM.into(), challenge, maxnumber: self.difficulty, salt, signature })
    }

    /// Checks a solution, a JSON object in base64. It does not detect a solution that was used before: see [`Solved`].
    ///
    /// # Errors
    /// [`BadSolution`] says what is wrong.
    pub fn check(&self, payload: &str, now: Time) -> Result<Solved, BadSolution> {
        if payload.len() > MAX_LEN {
            return Err(BadSolution::Malformed);
        }
        let json = STANDARD.decode(payload).map_err(|_| BadSolution::Malformed)?;
        let solution: Solution = serde_json::from_slice(&json).map_err(|_| BadSolution::Malformed)?;
        if solution.algorithm != ALGORITHM {
            return Err(BadSolution::Algorithm);
        }
        let expires_at = expiry(&solution.salt).ok_or(BadSolution::Malformed)?;
        let digest = challenge(&solution.salt, solution.number);
        let matches: bool = hex::encode(digest).as_bytes().ct_eq(solution.challenge.as_bytes()).into();
        if !matches || solution.number > self.difficulty.into() {
            return Err(BadSolution::Wrong);
        }
        let signature = hex::decode(&solution.signature).map_err(|_| BadSolution::Malformed)?;
        let mut keys = std::iter::once(&self.key).chain(&self.former);
        if !keys.any(|key| hmac::verify(key, solution.challenge.as_bytes(), &signature).is_ok()) {
            return Err(BadSolution::Forged);
        }
        if now >= expires_at {
            return Err(BadSolution::Expired);
        }
        Ok(Solved { digest, expires_at })
    }
}

fn challenge(salt: &str, number: u64) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(salt.as_bytes());
    hash.update(number.to_string().as_bytes());
    let mut challenge = [0; 32];
    challenge.copy_from_slice(hash.finish().as_ref());
    challenge
}

fn expiry(salt: &str) -> Option<Time> {
    let (_, expires) = salt.strip_suffix('&')?.split_once("?expires=")?;
    let digits = !expires.is_empty() && expires.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| expires.parse().ok().map(Time::from_secs))?
}

/// Solves a challenge as a browser would, or returns `None` if no number up to the maximum matches. A million numbers
/// take about 1.5 seconds of one core, and much longer without optimisation.
pub fn solve(challenge: &Challenge) -> Option<String> {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(challenge.salt.as_bytes());
    let sought = hex::decode(&challenge.challenge).ok()?;
    let number = (0..=u64::from(challenge.maxnumber)).find(|number| {
        let mut hash = hash.clone();
        hash.update(number.to_string().as_bytes());
        hash.finish().as_ref() == sought
    })?;
    let solution = Solution {
        algorithm: challenge.algorithm.clone(),
        challenge: challenge.challenge.clone(),
        number,
        salt: challenge.salt.clone(),
        signature: challenge.signature.clone(),
    };
    serde_json::to_vec(&solution).ok().map(|json| STANDARD.encode(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn challenges() -> Challenges {
        Challenges::new(b"shared by all hosts", 2_000)
    }

    fn solution() -> Value {
        let payload = solve(&challenges().issue(NOW).unwrap()).unwrap();
        serde_json::from_slice(&STANDARD.decode(payload).unwrap()).unwrap()
    }

    fn check(solution: &Value) -> Result<Solved, BadSolution> {
        challenges().check(&STANDARD.encode(solution.to_string()), NOW)
    }

    fn sha(text: &str) -> String {
        hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))
    }

    // Shows (Accounts and second factors): A challenge in ALTCHA's format is required, and its solution is accepted
    // once.
    #[test]
    fn a_challenge_has_the_members_that_the_widget_reads() {
        let challenges = challenges();
        let challenge = challenges.issue(NOW).unwrap();
        let json = serde_json::to_value(&challenge).unwrap();
        assert_eq!((&json["algorithm"], &json["maxnumber"]), (&json!("SHA-256"), &json!(2_000)));
        assert!(challenge.salt.ends_with("?expires=1800000600&"), "{}", challenge.salt);
        assert_eq!((challenge.challenge.len(), challenge.signature.len()), (64, 64));
        let found =
            (0..=2_000).filter(|n| sha(&format!("{}{n}", challenge.salt)) == challenge.challenge).count();
        assert_eq!(found, 1);
        let tag = hmac::sign(&challenges.key, challenge.challenge.as_bytes());
        assert_eq!(challenge.signature, hex::encode(tag));
        assert_ne!(challenge, challenges.issue(NOW).unwrap());
    }

    #[test]
    fn a_solution_is_known_by_its_challenge_until_it_expires() {
        let challenges = challenges();
        let challenge = challenges.issue(NOW).unwrap();
        let payload = solve(&challenge).unwrap();
        let solved = challenges.check(&payload, NOW).unwrap();
        assert_eq!(hex::encode(solved.digest), challenge.challenge);
        assert_eq!(solved.expires_at, NOW.plus(LIFE));
        let last = Time::from_micros(NOW.plus(LIFE).micros() - 1);
        assert_eq!(challenges.check(&payload, last), Ok(solved));
        assert_eq!(challenges.check(&payload, NOW.plus(LIFE)), Err(BadSolution::Expired));
    }

    #[test]
    fn every_spelling_of_a_solution_has_the_same_digest() {
        let mut solution = solution();
        let digest = check(&solution).unwrap().digest;
        solution["took"] = json!(1234);
        solution["test"] = Value::Null;
        let signature = solution["signature"].as_str().unwrap().to_uppercase();
        solution["signature"] = json!(signature);
        assert_eq!(check(&solution).unwrap().digest, digest);
    }

    // Shows (Accounts and second factors).
    #[test]
    fn a_forged_or_unsolved_challenge_is_refused() {
        let good = solution();
        let with = |changes: &[(&str, Value)]| {
            let mut changed = good.clone();
            for (name, value) in changes {
                changed[*name] = value.clone();
            }
            changed
        };
        let without = |name: &str| {
            let mut changed = good.clone();
            changed.as_object_mut().unwrap().remove(name);
            changed
        };
        let salt = good["salt"].as_str().unwrap();
        let number = good["number"].as_u64().unwrap();
        let own = |salt: String, number: u64| {
            with(&[
                ("challenge", json!(sha(&format!("{salt}{number}")))),
                ("salt", json!(salt)),
                ("number", json!(number)),
            ])
        };
        let later = salt.replace("1800000600", "1900000600");
        let other = challenges().issue(NOW).unwrap();
        let upper = good["challenge"].as_str().unwrap().to_uppercase();
        let outsider = Challenges::new(b"another secret", 2_000).issue(NOW).unwrap();
        let cases = [
            (
                "a challenge of one's own",
                own(salt.into(), 7_u64.max(number + 1).min(1_999)),
                BadSolution::Forged,
            ),
            ("a later expiry", own(later.clone(), number), BadSolution::Forged),
            ("a later expiry alone", with(&[("salt", json!(later))]), BadSolution::Wrong),
            ("no expiry", own("00".into(), 1), BadSolution::Malformed),
            ("an empty expiry", own("00?expires=&".into(), 1), BadSolution::Malformed),
            ("a signed expiry", own("00?expires=+1900000000&".into(), 1), BadSolution::Malformed),
            ("an endless expiry", own(format!("00?expires={}&", "9".repeat(40)), 1), BadSolution::Malformed),
            ("a parameter behind it", own(format!("{salt}x=1&"), 1), BadSolution::Malformed),
            ("no ampersand", own(salt.trim_end_matches('&').into(), 1), BadSolution::Malformed),
            ("the next number", with(&[("number", json!(number + 1))]), BadSolution::Wrong),
            ("a number beyond the greatest", own(salt.into(), 2_001), BadSolution::Wrong),
            ("a number below zero", with(&[("number", json!(-1))]), BadSolution::Malformed),
            ("a fraction", with(&[("number", json!(1.5))]), BadSolution::Malformed),
            ("a number as text", with(&[("number", json!(number.to_string()))]), BadSolution::Malformed),
            ("another algorithm", with(&[("algorithm", json!("SHA-1"))]), BadSolution::Algorithm),
            (
                "an algorithm in small letters",
                with(&[("algorithm", json!("sha-256"))]),
                BadSolution::Algorithm,
            ),
            ("another's challenge", with(&[("challenge", json!(other.challenge))]), BadSolution::Wrong),
            ("a challenge in capitals", with(&[("challenge", json!(upper))]), BadSolution::Wrong),
            ("another's signature", with(&[("signature", json!(other.signature))]), BadSolution::Forged),
            (
                "another secret's signature",
                with(&[("signature", json!(outsider.signature))]),
                BadSolution::Forged,
            ),
            ("half a signature", with(&[("signature", json!(other.signature[..32]))]), BadSolution::Forged),
            ("no hexadecimal signature", with(&[("signature", json!("?"))]), BadSolution::Malformed),
            ("an empty signature", with(&[("signature", json!(""))]), BadSolution::Forged),
            ("no number", without("number"), BadSolution::Malformed),
            ("no signature", without("signature"), BadSolution::Malformed),
            ("no algorithm", without("algorithm"), BadSolution::Malformed),
            ("not an object", json!([1]), BadSolution::Malformed),
            ("oversized", with(&[("note", json!("x".repeat(MAX_LEN)))]), BadSolution::Malformed),
        ];
        for (name, solution, why) in cases {
            assert_eq!(check(&solution), Err(why), "{name}: {solution}");
        }
        for text in ["", "=", "{}", "not base64!", "AAAA"] {
            assert_eq!(challenges().check(text, NOW), Err(BadSolution::Malformed), "{text}");
        }
    }

    #[test]
    fn an_unsolvable_challenge_has_no_solution() {
        let mut challenge = challenges().issue(NOW).unwrap();
        challenge.challenge = "00".repeat(32);
        assert_eq!(solve(&challenge), None);
        challenge.challenge = "?".into();
        assert_eq!(solve(&challenge), None);
    }

    #[test]
    fn the_easiest_challenge_can_be_solved() {
        let challenges = Challenges::new(b"s", 0);
        let payload = solve(&challenges.issue(NOW).unwrap()).unwrap();
        assert!(challenges.check(&payload, NOW).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic(text in "\\PC*", at: u64) {
            let at = Time::from_micros(at);
            prop_assert!(challenges().check(&text, at).is_err());
            prop_assert!(challenges().check(&STANDARD.encode(text), at).is_err());
        }
    }
}

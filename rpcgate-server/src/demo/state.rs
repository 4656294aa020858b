//! What a demo keeps from one start to the next: the seed of its simulated chains, its account and its secrets.

use super::dir::{Dir, DirError};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::secret::{KeyForge, NoRandomness, random_text};
use serde_json::{Value, json};
use std::fmt;

const FILE: &str = "state.json";
const SECRET_LENGTH: usize = 48;

/// A demo's memory.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct State {
    /// The simulated chains are a function of it and of the time.
    pub(super) seed: u64,
    /// `gateway.key_secret`.
    pub(super) key_secret: String,
    /// The API key.
    pub(super) api_key: String,
    // Identifiers that the account is made with.
    pub(super) tenant: TenantId,
    pub(super) project: ProjectId,
    pub(super) key: KeyId,
}

impl fmt::Debug for State {
    /// Half of it is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("seed", &self.seed).field("key", &self.key).finish_non_exhaustive()
    }
}

/// Why there is no state to start from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Its file cannot be read or written.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// A file of it was not written by a demo.
    #[error("{file}: {why}: mend it, or remove it to begin anew")]
    Unreadable {
        /// Where it stands.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// None could be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl State {
    /// The state kept in `dir`; a new one, kept from now on, where there is none.
    pub(super) fn open(dir: &Dir) -> Result<State, StateError> {
        let Some(text) = dir.read(FILE)? else {
            let state = State::make()?;
            state.keep(dir)?;
            return Ok(state);
        };
        State::read(&text)
            .map_err(|why| StateError::Unreadable { file: dir.file(FILE).display().to_string(), why })
    }

    /// Writes it to `dir`.
    pub(super) fn keep(&self, dir: &Dir) -> Result<(), StateError> {
        let value = json!({
            "seed": self.seed,
            "key_secret": self.key_secret,
            "api_key": self.api_key,
            "tenant_id": self.tenant.to_string(),
            "project_id": self.project.to_string(),
            "key_id": self.key.to_string(),
        });
        Ok(dir.write(FILE, &format!("{value:#}\n"))?)
    }

    /// Puts another API key in the place of the one that there is, under an identifier of its own.
    pub(super) fn renew(&mut self, forge: &KeyForge) -> Result<(), StateError> {
        self.api_key = forge.make()?;
        self.renumber()
    }

    /// Gives the API key another identifier.
    pub(super) fn renumber(&mut self) -> Result<(), StateError> {
        self.key = KeyId(uuid()?);
        Ok(())
    }

    fn make() -> Result<State, NoRandomness> {
        let mut key_secret = String::new();
        random_text(SECRET_LENGTH, &mut key_secret)?;
        Ok(State {
            seed: u64::from_be_bytes(random()?),
            api_key: KeyForge::new(key_secret.as_bytes()).make()?,
            key_secret,
            tenant: TenantId(uuid()?),
            project: ProjectId(uuid()?),
            key: KeyId(uuid()?),
        })
    }

    /// The error says what is wrong and repeats no value.
    pub(super) fn read(text: &str) -> Result<State, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("line {}: not JSON", error.line()))?;
        let text = |name: &str| {
            let text = value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("{name} must be a text"))
        };
        let not_uuid = |name: &'static str| move |_| format!("{name} must be a UUID");
        Ok(State {
            seed: value.get("seed").and_then(Value::as_u64).ok_or("seed must be a whole number")?,
            key_secret: text("key_secret")?,
            api_key: text("api_key")?,
            tenant: text("tenant_id")?.parse().map_err(not_uuid("tenant_id"))?,
            project: text("project_id")?.parse().map_err(not_uuid("project_id"))?,
            key: text("key_id")?.parse().map_err(not_uuid("key_id"))?,
        })
    }
}

fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// A UUID of version 4 (RFC 9562).
fn uuid() -> Result<u128, NoRandomness> {
    let bits = u128::from_be_bytes(random()?);
    Ok(bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_start_finds_what_the_first_one_made() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let first = State::open(&dir).unwrap();
        assert_eq!(State::open(&dir).unwrap(), first);
        assert!(KeyForge::new(first.key_secret.as_bytes()).is_genuine(&first.api_key));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(State::open(&Dir::open(other.path()).unwrap()).unwrap(), first);
    }

    #[test]
    fn another_key_has_another_identifier_and_all_else_stays() {
        let home = tempfile::tempdir().unwrap();
        let first = State::open(&Dir::open(home.path()).unwrap()).unwrap();
        let mut renewed = first.clone();
        renewed.renew(&KeyForge::new(b"another secret")).unwrap();
        assert!(KeyForge::new(b"another secret").is_genuine(&renewed.api_key) && renewed.key != first.key);
        let State { api_key, key, .. } = first.clone();
        assert_eq!(State { api_key, key, ..renewed }, first);
    }

    #[test]
    fn ids_are_random_uuids() {
        let text = KeyId(uuid().unwrap()).to_string();
        assert_eq!((&text[14..15], "89ab".contains(&text[19..20])), ("4", true), "{text}");
        assert_ne!(uuid(), uuid());
    }

    #[test]
    fn a_broken_file_is_never_replaced_and_never_quoted() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let made = State::open(&dir).unwrap();
        let whole = dir.read(FILE).unwrap().unwrap();
        let tenant = made.tenant.to_string();
        for (broken, why) in [
            (whole[..whole.len() - 4].to_owned(), "line 7: not JSON"),
            (String::new(), "line 1: not JSON"),
            (whole.replace("\"seed\": ", "\"seed\": -"), "seed must be a whole number"),
            (whole.replace("api_key", "api-key"), "api_key must be a text"),
            (whole.replace(&tenant, "x"), "tenant_id must be a UUID"),
        ] {
            dir.write(FILE, &broken).unwrap();
            let error = State::open(&dir).unwrap_err().to_string();
            assert!(error.contains(&format!("{FILE}: {why}")), "{error}");
            assert!(!error.contains(&made.api_key) && !error.contains(&made.key_secret));
            assert_eq!(dir.read(FILE).unwrap().unwrap(), broken);
        }
    }
}

//! The stored state of a demo: the seed of its simulated chains, its account and its secrets.

use super::dir::{Dir, DirError};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::secret::{KeyForge, NoRandomness, random_text};
use rpcgate_store::UserId;
use serde_json::{Value, json};
use std::fmt;

const FILE: &str = "state.json";
const SECRET_LENGTH: usize = 48;
const PASSWORD_LENGTH: usize = 24;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct DemoState {
    /// The simulated chains are a function of the seed and the time.
    pub(super) seed: u64,
    /// `gateway.key_secret`.
    pub(super) key_secret: String,
    pub(super) api_key: String,
    // The identifiers of the account.
    pub(super) tenant: TenantId,
    pub(super) project: ProjectId,
    pub(super) key: KeyId,
    /// `admin.jwt.secret`.
    pub(super) jwt_secret: String,
    pub(super) owner: Login,
    pub(super) operator: Login,
    pub(super) operator_id: UserId,
}

/// A password that the demo created.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) password: String,
    /// A digest of the password and of a hash that it was verified against. If it matches the hash in the database, the
    /// password is valid, and hashing is not needed.
    pub(super) proof: Option<String>,
}

impl fmt::Debug for Login {
    /// The password is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl fmt::Debug for DemoState {
    /// Left out, because half of it is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DemoState").field("seed", &self.seed).field("key", &self.key).finish_non_exhaustive()
    }
}

/// The reason why there is no state to start from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// A file was not written by a demo.
    #[error("{file}: {why}: repair it, or remove it to start over")]
    Unreadable {
        /// The path of the file.
        file: String,
        /// The error.
        why: String,
    },
    /// The operating system has no randomness for a new state.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl DemoState {
    /// Reads the state in `dir`, or creates and stores a new one.
    pub(super) fn open(dir: &Dir) -> Result<DemoState, StateError> {
        let Some(text) = dir.read(FILE)? else {
            let state = DemoState::make()?;
            state.keep(dir)?;
            return Ok(state);
        };
        let mut state = DemoState::read(&text).map_err(|why| DemoState::unreadable(dir, why))?;
        if state.complete()? {
            state.keep(dir)?;
        }
        Ok(state)
    }

    pub(super) fn unreadable(dir: &Dir, why: String) -> StateError {
        StateError::Unreadable { file: dir.file(FILE).display().to_string(), why }
    }

    pub(super) fn keep(&self, dir: &Dir) -> Result<(), StateError> {
        let value = json!({
            "seed": self.seed,
            "key_secret": self.key_secret,
            "api_key": self.api_key,
            "tenant_id": self.tenant.to_string(),
            "project_id": self.project.to_string(),
            "key_id": self.key.to_string(),
            "jwt_secret": self.jwt_secret,
            "password": self.owner.password,
            "password_proof": self.owner.proof,
            "operator_id": self.operator_id.to_string(),
            "operator_password": self.operator.password,
            "operator_password_proof": self.operator.proof,
        });
        Ok(dir.write(FILE, format!("{value:#}\n"))?)
    }

    /// Replaces the API key by another one with its own identifier.
    pub(super) fn renew(&mut self, forge: &KeyForge) -> Result<(), StateError> {
        self.api_key = forge.make()?;
        self.renumber()
    }

    pub(super) fn renumber(&mut self) -> Result<(), StateError> {
        self.key = KeyId(uuid()?);
        Ok(())
    }

    fn make() -> Result<DemoState, NoRandomness> {
        let mut key_secret = String::new();
        random_text(SECRET_LENGTH, &mut key_secret)?;
        let none = Login { password: String::new(), proof: None };
        let mut state = DemoState {
            seed: u64::from_be_bytes(random()?),
            api_key: KeyForge::new(key_secret.as_bytes()).make()?,
            key_secret,
            tenant: TenantId(uuid()?),
            project: ProjectId(uuid()?),
            key: KeyId(uuid()?),
            jwt_secret: String::new(),
            owner: none.clone(),
            operator: none,
            operator_id: UserId(0),
        };
        state.complete()?;
        Ok(state)
    }

    /// Creates the values that an earlier version did not store. Returns whether any was missing.
    fn complete(&mut self) -> Result<bool, NoRandomness> {
        let mut made = false;
        for (text, length) in [
            (&mut self.jwt_secret, SECRET_LENGTH),
            (&mut self.owner.password, PASSWORD_LENGTH),
            (&mut self.operator.password, PASSWORD_LENGTH),
        ] {
            if text.is_empty() {
                random_text(length, text)?;
                made = true;
            }
        }
        if self.operator_id == UserId(0) {
            self.operator_id = UserId(uuid()?);
            made = true;
        }
        Ok(made)
    }

    /// Parses a state. Fields of later versions stay empty. The error gives the reason and repeats no value.
    pub(super) fn read(text: &str) -> Result<DemoState, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("line {}: not JSON", error.line()))?;
        let text = |name: &str| {
            let text = value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("{name} must be a text"))
        };
        let newer = |name: &str| match value.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(_) => text(name),
        };
        let login = |password: &str, proof: &str| -> Result<Login, String> {
            let proof = Some(newer(proof)?).filter(|proof| !proof.is_empty());
            Ok(Login { password: newer(password)?, proof })
        };
        let not_uuid = |name: &'static str| move |_| format!("{name} must be a UUID");
        let operator_id = match newer("operator_id")? {
            none if none.is_empty() => UserId(0),
            id => id.parse().map_err(|_| "operator_id must be a UUID")?,
        };
        Ok(DemoState {
            seed: value.get("seed").and_then(Value::as_u64).ok_or("seed must be a whole number")?,
            key_secret: text("key_secret")?,
            api_key: text("api_key")?,
            tenant: text("tenant_id")?.parse().map_err(not_uuid("tenant_id"))?,
            project: text("project_id")?.parse().map_err(not_uuid("project_id"))?,
            key: text("key_id")?.parse().map_err(not_uuid("key_id"))?,
            jwt_secret: newer("jwt_secret")?,
            owner: login("password", "password_proof")?,
            operator: login("operator_password", "operator_password_proof")?,
            operator_id,
        })
    }
}

fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// Returns a UUID of version 4 (RFC 9562).
fn uuid() -> Result<u128, NoRandomness> {
    let bits = u128::from_be_bytes(random()?);
    Ok(bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_start_finds_the_state_of_the_first() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let first = DemoState::open(&dir).unwrap();
        assert_eq!(DemoState::open(&dir).unwrap(), first);
        assert!(KeyForge::new(first.key_secret.as_bytes()).is_genuine(&first.api_key));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(DemoState::open(&Dir::open(other.path()).unwrap()).unwrap(), first);
    }

    #[test]
    fn fields_that_an_earlier_version_lacked_are_added_once_and_others_stay() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let mut made = DemoState::open(&dir).unwrap();
        made.owner.proof = Some("p".into());
        made.keep(&dir).unwrap();
        let whole: Value = serde_json::from_str(&dir.read(FILE).unwrap().unwrap()).unwrap();
        for gone in ["jwt_secret", "password", "operator_password", "operator_id"] {
            let mut old = whole.clone();
            old.as_object_mut().unwrap().remove(gone);
            dir.write(FILE, old.to_string()).unwrap();
            let state = DemoState::open(&dir).unwrap();
            assert_eq!(DemoState::open(&dir).unwrap(), state, "{gone}: it is kept from now on");
            let mut now: Value = serde_json::from_str(&dir.read(FILE).unwrap().unwrap()).unwrap();
            assert!(now[gone].as_str().unwrap().len() >= 24, "{gone}");
            assert_ne!(now[gone], whole[gone], "{gone}");
            now[gone] = whole[gone].clone();
            assert_eq!(now, whole, "{gone}");
        }
        assert!(made.jwt_secret.len() >= 32 && made.owner.password != made.operator.password);
        let shown = format!("{made:?} {:?}", made.owner);
        assert!(!shown.contains(&made.owner.password) && !shown.contains(&made.jwt_secret), "{shown}");
    }

    #[test]
    fn another_key_has_another_identifier_and_all_else_stays() {
        let home = tempfile::tempdir().unwrap();
        let first = DemoState::open(&Dir::open(home.path()).unwrap()).unwrap();
        let mut renewed = first.clone();
        renewed.renew(&KeyForge::new(b"another secret")).unwrap();
        assert!(KeyForge::new(b"another secret").is_genuine(&renewed.api_key) && renewed.key != first.key);
        let DemoState { api_key, key, .. } = first.clone();
        assert_eq!(DemoState { api_key, key, ..renewed }, first);
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
        let made = DemoState::open(&dir).unwrap();
        let whole = dir.read(FILE).unwrap().unwrap();
        let tenant = made.tenant.to_string();
        for (broken, why) in [
            (whole[..whole.len() - 4].to_owned(), "line 13: not JSON"),
            (String::new(), "line 1: not JSON"),
            (whole.replace("\"seed\": ", "\"seed\": -"), "seed must be a whole number"),
            (whole.replace("api_key", "api-key"), "api_key must be a text"),
            (whole.replace(&tenant, "x"), "tenant_id must be a UUID"),
            (whole.replace(&made.operator_id.to_string(), "x"), "operator_id must be a UUID"),
            (whole.replace(&made.jwt_secret, ""), "jwt_secret must be a text"),
        ] {
            dir.write(FILE, &broken).unwrap();
            let error = DemoState::open(&dir).unwrap_err().to_string();
            assert!(error.contains(&format!("{FILE}: {why}")), "{error}");
            for secret in [&made.api_key, &made.key_secret, &made.jwt_secret, &made.owner.password] {
                assert!(!error.contains(secret), "{error}");
            }
            assert_eq!(dir.read(FILE).unwrap().unwrap(), broken);
        }
    }
}

//! `[keys.<name>]`: API keys in the configuration file.

use super::fields::{Fields, Table};
use super::masking::Masking;
use super::problem::Problem;
use super::project::DEFAULT_NAME;
use super::reading::Reading;
use super::secret::Secret;
use super::toml_text::quote;
use super::tree::Item;
use super::value::Value;
use rpcgate_core::caller::KeyId;
use rpcgate_core::clock::Time;
use rpcgate_core::secret::KeyHash;

/// `[keys.<name>]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeySettings {
    /// The id; by default derived from the name.
    pub id: KeyId,
    /// The key itself, as an alternative to its digest.
    pub key: Option<Secret>,
    /// The SHA-256 of the key as clients send it.
    pub sha256: Option<KeyHash>,
    /// The name of its project.
    pub project: String,
    /// The chains that it may use, by canonical name. Empty: all.
    pub chains: Vec<String>,
    /// The expiry time.
    pub expires_at: Option<Time>,
    /// True if it was revoked.
    pub revoked: bool,
}

impl Default for KeySettings {
    fn default() -> Self {
        KeySettings {
            id: KeyId(0),
            key: None,
            sha256: None,
            project: DEFAULT_NAME.into(),
            chains: Vec::new(),
            expires_at: None,
            revoked: false,
        }
    }
}

impl KeySettings {
    /// Returns the hash under which the key is looked up; `None` only if neither form was given.
    pub fn hash(&self) -> Option<KeyHash> {
        self.key.as_ref().map(|key| KeyHash::of(key.expose())).or(self.sha256)
    }
}

impl Table for KeySettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("id", &mut self.id);
        f.secret("key", &mut self.key, 16);
        f.value("sha256", &mut self.sha256);
        f.value("project", &mut self.project);
        f.value("chains", &mut self.chains);
        f.value("expires_at", &mut self.expires_at);
        f.value("revoked", &mut self.revoked);
        if self.key.is_some() && self.sha256.is_some() {
            f.wrong(&["sha256"], |key| Problem::Invalid {
                key,
                why: "stands beside key: give one of them".into(),
            });
        }
        if self.key.as_ref().is_some_and(|key| !key.expose().bytes().all(|b| b.is_ascii_graphic())) {
            let why = "has characters that no header carries safely: use visible ASCII".into();
            f.wrong(&["key"], |key| Problem::Invalid { key, why });
        }
    }
}

impl Value for KeyHash {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        // The value is not shown: it may be the key itself, put here by mistake.
        item.text().and_then(KeyHash::from_hex).or_else(|| {
            let expected = "64 hexadecimal digits".into();
            let found = "something else".into();
            r.wrong(item, |key| Problem::Unreadable { key, expected, found })
        })
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

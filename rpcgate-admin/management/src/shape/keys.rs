//! JSON shapes of API keys.

use crate::action::keys::NewKey;
use crate::shape::moment::Moment;
use rpcgate_core::caller::Scope;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// An API key, without its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyJson {
    /// Its identifier, by which usage can be filtered.
    #[schema(format = "uuid")]
    pub id: String,
    /// The project that meters its calls.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// Its description.
    pub description: String,
    /// Its first 12 characters.
    #[schema(example = "rpcg_0Ab1Cd2")]
    pub prefix: String,
    /// The chains that it may use, by their canonical names; null for all.
    pub chains: Option<Vec<String>>,
    /// The expiry time, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Moment>,
    /// The time of its revocation, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Moment>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::Key> for KeyJson {
    fn from(key: rpcgate_store::Key) -> Self {
        KeyJson {
            id: key.id.to_string(),
            project_id: key.project.to_string(),
            description: key.description,
            prefix: key.prefix,
            chains: match key.scope {
                Scope::All => None,
                Scope::Only(chains) => Some(chains.into_iter().map(String::from).collect()),
            },
            expires_at: key.expires_at.map(Moment),
            revoked_at: key.revoked_at.map(Moment),
            created_at: key.created_at.into(),
        }
    }
}

/// A new key with its text.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key itself. It is shown only once.
    pub key: String,
    /// The stored key.
    #[serde(flatten)]
    pub kept: KeyJson,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(f)
    }
}

/// The properties of a new key.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub struct NewKeyJson {
    /// Its description, at most 200 characters.
    #[schema(max_length = 200)]
    pub description: String,
    /// The chains that it may use, by name or alias; all by default.
    #[schema(example = json!(["eth", "bitcoin"]))]
    pub chains: Option<Vec<String>>,
    /// The expiry time; never by default.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Moment>,
}

impl From<NewKeyJson> for NewKey {
    fn from(NewKeyJson { description, chains, expires_at }: NewKeyJson) -> Self {
        NewKey::new(description, chains, expires_at.map(|Moment(time)| time))
    }
}

//! JSON shapes of personal access tokens.

use crate::identity::password::Typed;
use crate::shape::moment::Moment;
use rpcgate_store::AccessToken;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// A personal access token, without its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AccessToken)]
pub struct AccessTokenJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name.
    pub name: String,
    /// The permissions of the token.
    #[schema(example = json!(["read", "manage_keys"]))]
    pub scopes: Vec<String>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The expiry time. The token stays in the list for 30 days after it.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Moment,
    /// The time of the last use, to the minute, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Moment>,
    /// The client's address at the last use, or null.
    #[schema(example = "192.0.2.1")]
    pub last_used_from: Option<String>,
}

impl From<AccessToken> for AccessTokenJson {
    fn from(token: AccessToken) -> Self {
        let (at, from) = token.used.unzip();
        AccessTokenJson {
            id: token.id.to_string(),
            name: token.name,
            scopes: token.scopes,
            created_at: token.created_at.into(),
            expires_at: token.expires_at.into(),
            last_used_at: at.map(Moment),
            last_used_from: from,
        }
    }
}

/// A new token with its text.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedAccessToken {
    /// The token itself, for `Authorization: Bearer`. It is shown only once.
    pub token: String,
    /// The stored token.
    #[serde(flatten)]
    pub kept: AccessTokenJson,
}

impl fmt::Debug for CreatedAccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(f)
    }
}

/// The properties of a new token.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAccessToken)]
pub struct NewAccessTokenJson {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// The permissions of the token: some of the caller's own permissions, which `GET /roles` lists by role, or
    /// `operator_read` and `operator_write` for operators.
    #[schema(min_items = 1, example = json!(["read", "manage_keys"]))]
    pub scopes: Vec<String>,
    /// The expiry time, at most 366 days ahead; 90 days ahead by default.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Moment>,
    /// The password of the account, unless the session has a proof from the last ten minutes.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
}

//! JSON shapes of resets of forgotten passwords.

use crate::identity::password::Typed;
use serde::Deserialize;
use std::fmt;
use utoipa::ToSchema;

/// A request for a reset.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Forgot {
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
}

/// A reset of a password.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The token from the link.
    pub token: String,
    /// The new password, at least 10 characters.
    #[schema(value_type = String, format = Password, min_length = 10, max_length = 256)]
    pub password: Typed,
    /// True to keep second factors that were added in the last seven days. By default they are removed, because a thief
    /// may have added them.
    #[serde(default)]
    pub keep_factors: bool,
    /// True to keep the open invitations that the user made. By default they are withdrawn, because a thief may have
    /// invited an address of their own.
    #[serde(default)]
    pub keep_invitations: bool,
}

impl fmt::Debug for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reset")
    }
}

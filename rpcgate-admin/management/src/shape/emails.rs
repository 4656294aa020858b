//! JSON shapes of a change of the caller's e-mail address.

use crate::identity::password::Typed;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A change of address.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeEmail {
    /// The new address.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The password of the account. It can be left out if the session has a proof from the last ten minutes.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
}

/// An address that awaits its confirmation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct AwaitedEmail {
    /// The address to which a mail was sent.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// Always false: the address is not confirmed yet.
    pub confirmed: bool,
}

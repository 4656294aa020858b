//! JSON shapes of the caller's account.

use crate::identity::password::Typed;
use rpcgate_store::User;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The calling user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Me {
    /// The user's identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The user's tenant; null for operators.
    #[schema(format = "uuid")]
    pub tenant_id: Option<String>,
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The display name.
    pub name: String,
    /// The user's role in the tenant, or `operator`.
    #[schema(example = "owner")]
    pub role: &'static str,
    /// True if the user is an operator.
    pub operator: bool,
    /// True if the address is confirmed. Until then, no API key can be created.
    pub confirmed: bool,
}

/// A change to the caller's account.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The display name.
    #[schema(max_length = 200)]
    pub name: String,
}

/// A change of password.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePassword {
    /// The current password. It can be left out if the session has a proof from the last ten minutes.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
    /// The new password, at least 10 characters.
    #[schema(value_type = String, format = Password, min_length = 10, max_length = 256)]
    pub new_password: Typed,
}

impl From<&User> for Me {
    fn from(user: &User) -> Self {
        let operator = user.is_operator();
        Me {
            id: user.id.to_string(),
            tenant_id: user.tenant.map(|id| id.to_string()),
            email: user.email.clone(),
            name: user.name.clone(),
            role: user.role_name(),
            operator,
            confirmed: user.confirmed_at.is_some(),
        }
    }
}

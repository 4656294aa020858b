//! JSON shapes of a tenant's members.

use crate::shape::moment::Moment;
use rpcgate_store::{Role, User};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A member of a tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberJson {
    /// The user's identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The display name.
    pub name: String,
    /// The member's role.
    pub role: Role,
    /// True if the address is confirmed.
    pub confirmed: bool,
    /// The creation time of the account.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<User> for MemberJson {
    fn from(user: User) -> Self {
        MemberJson {
            id: user.id.to_string(),
            email: user.email,
            name: user.name,
            role: user.role,
            confirmed: user.confirmed_at.is_some(),
            created_at: user.created_at.into(),
        }
    }
}

/// A change of role.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRole {
    /// The new role.
    pub role: Role,
}

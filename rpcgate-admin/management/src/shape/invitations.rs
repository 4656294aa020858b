//! JSON shapes of invitations to a tenant.

use crate::identity::password::Typed;
use crate::shape::moment::Moment;
use rpcgate_store::Role;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// An open invitation. Only the mail contains its token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Invitation)]
pub struct InvitationJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The invited address.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The role of the new member.
    pub role: Role,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The expiry time.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Moment,
}

impl From<rpcgate_store::Invitation> for InvitationJson {
    fn from(invitation: rpcgate_store::Invitation) -> Self {
        InvitationJson {
            id: invitation.id.to_string(),
            email: invitation.email,
            role: invitation.role,
            created_at: invitation.created_at.into(),
            expires_at: invitation.expires_at.into(),
        }
    }
}

/// A new invitation.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// The invited address.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The role of the new member.
    pub role: Role,
}

/// The acceptance of an invitation.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// The token from the link.
    pub token: String,
    /// The display name.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// At least 10 characters.
    #[schema(value_type = String, format = Password, min_length = 10, max_length = 256)]
    pub password: Typed,
}

impl fmt::Debug for Accept {
    /// Leaves out the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accept").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A new member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Joined {
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The name.
    pub name: String,
    /// Always true, because the invitation was mailed to the address.
    pub confirmed: bool,
}

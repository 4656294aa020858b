//! JSON shape of the roles of a tenant's members.

use crate::identity::role::{self, Permission, Role};
use serde::Serialize;
use utoipa::ToSchema;

/// A role in a tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Role)]
pub struct RoleJson {
    /// Its name.
    #[schema(example = "developer")]
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Its permissions.
    pub permissions: Vec<&'static str>,
}

impl From<Role> for RoleJson {
    fn from(role: Role) -> Self {
        RoleJson {
            name: role.as_str(),
            description: role::description(role),
            permissions: role::permissions(role).map(Permission::as_str).collect(),
        }
    }
}

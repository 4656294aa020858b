//! The roles that a member of a tenant can have.

use crate::management::identity::role::{self, Permission, Role};
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

/// A role in a tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Role)]
pub struct RoleJson {
    /// Its name.
    #[schema(example = "developer")]
    pub name: &'static str,
    /// Its description, for people.
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

/// List the roles
///
/// The roles that a member of a tenant can have, and the permissions of each.
#[utoipa::path(get, path = "/roles", operation_id = "list_roles", tag = "catalog",
    responses((status = 200, description = "All roles.", body = [RoleJson])))]
pub async fn list() -> Json<Vec<RoleJson>> {
    Json(Role::ALL.map(RoleJson::from).into())
}

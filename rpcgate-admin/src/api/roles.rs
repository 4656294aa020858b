//! Routes of the roles of a tenant's members.

use axum::Json;
use rpcgate_management::identity::role::Role;
use rpcgate_management::shape::roles::RoleJson;

/// List the roles
///
/// The roles that a member of a tenant can have, and the permissions of each.
#[utoipa::path(get, path = "/roles", operation_id = "list_roles", tag = "catalog",
    responses((status = 200, description = "All roles.", body = [RoleJson])))]
pub async fn list() -> Json<Vec<RoleJson>> {
    Json(Role::ALL.map(RoleJson::from).into())
}

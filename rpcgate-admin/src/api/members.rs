//! Routes of a tenant's members.

use super::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, Ids};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::members::{MemberJson, NewRole};
use rpcgate_store::{UserId, Versioned};
use std::sync::Arc;

/// List the members of a tenant
///
/// Oldest first.
#[utoipa::path(get, path = "/tenants/{id}/members", operation_id = "list_members", tag = "members",
    params(Page),
    responses((status = 200, description = "All members.", body = [MemberJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(tenant): Id<TenantId>,
) -> Result<ListPage<MemberJson>, ActionError> {
    let members = action::members::list(&app, &actor, tenant).await?;
    page.of(members.into_iter().map(MemberJson::from).collect(), false, |one| &one.id)
}

/// Read a member
#[utoipa::path(get, path = "/tenants/{id}/members/{user_id}", operation_id = "get_member", tag = "members",
    responses((status = 200, description = "The member.", body = MemberJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(tenant, id): Ids<TenantId, UserId>,
) -> Result<Tagged<MemberJson>, ActionError> {
    let version = current(&app, Versioned::Member(tenant, id)).await?;
    Ok(Tagged::new(version, action::members::get(&app, &actor, tenant, id).await?.into()))
}

/// Change the role of a member
///
/// Takes effect at once. Only an owner may grant or withdraw the role of owner. Open invitations that the member made,
/// and could not make with the new role, are withdrawn. To grant or withdraw the role of owner or admin, a log-in
/// session needs a proof from the last ten minutes (`POST /auth/proof`). The owners are notified by mail about a new
/// owner or admin.
#[utoipa::path(put, path = "/tenants/{id}/members/{user_id}", operation_id = "update_member", tag = "members",
    params(IfMatchHeader),
    request_body = NewRole,
    responses((status = 200, description = "The member as it is now.", body = MemberJson),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "It is the last owner.")))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(tenant, id): Ids<TenantId, UserId>,
    Body(NewRole { role }): Body<NewRole>,
) -> Result<Json<MemberJson>, ActionError> {
    Ok(Json(action::members::set_role(&app, &actor, tenant, id, role).await?.into()))
}

/// Remove a member
///
/// Deletes the account with its sessions and the open invitations that it made; keys stay. Every member may leave.
/// Removing others requires the role for it, and only an owner may remove owners. Leaving deletes the caller's own
/// account. To leave, or to remove an owner or an admin, the session needs a proof from the last ten minutes (`POST
/// /auth/proof`).
#[utoipa::path(delete, path = "/tenants/{id}/members/{user_id}", operation_id = "remove_member", tag = "members",
    params(IfMatchHeader),
    responses((status = 204, description = "Deleted."),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "It is the last owner.")))]
pub async fn remove(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(tenant, id): Ids<TenantId, UserId>,
) -> Result<StatusCode, ActionError> {
    action::members::remove(&app, &actor, tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;

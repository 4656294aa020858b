//! Routes of invitations to a tenant.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id, Ids};
use rpcgate_management::shape::invitations::{Accept, InvitationJson, Joined, NewInvitation};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_store::InvitationId;
use std::sync::Arc;

/// List the open invitations of a tenant
///
/// Oldest first.
#[utoipa::path(get, path = "/tenants/{id}/invitations", operation_id = "list_invitations", tag = "members",
    params(Page),
    responses((status = 200, description = "All that are open, at most 100.", body = [InvitationJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(tenant): Id<TenantId>,
) -> Result<ListPage<InvitationJson>, ActionError> {
    let invitations = action::invitations::list(&app, &actor, tenant).await?;
    page.of(invitations.into_iter().map(InvitationJson::from).collect(), false, |one| &one.id)
}

/// Invite a member
///
/// Sends a mail with a link that is valid for 7 days and can be used once. It replaces an earlier invitation of the
/// same address. Only the owner of the address learns, by mail, whether it has an account elsewhere. Only an owner may
/// invite owners. To invite an owner or an admin, a log-in session needs a proof from the last ten minutes (`POST
/// /auth/proof`), and the owners are notified by mail. A tenant may have 100 open invitations, and cannot invite while
/// it has reached the number of members that its plan allows.
#[utoipa::path(post, path = "/tenants/{id}/invitations", operation_id = "create_invitation", tag = "members",
    request_body = NewInvitation,
    responses((status = 201, description = "The invitation; a mail is on its way.", body = InvitationJson),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 403, description = "The role does not permit this, or the caller's e-mail address is not confirmed."),
        (status = 409, description = "The address belongs to a member, or there are too many invitations or members."),
        (status = 429, description = "Too many attempts: `Retry-After` says when to retry.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(tenant): Id<TenantId>,
    Body(NewInvitation { email, role }): Body<NewInvitation>,
) -> Result<(StatusCode, Json<InvitationJson>), ActionError> {
    let invitation = action::invitations::invite(&app, &actor, tenant, &email, role).await?;
    Ok((StatusCode::CREATED, Json(invitation.into())))
}

/// Withdraw an invitation
///
/// Its link becomes invalid.
#[utoipa::path(delete, path = "/tenants/{id}/invitations/{invitation_id}", operation_id = "withdraw_invitation",
    tag = "members",
    responses((status = 204, description = "Withdrawn.")))]
pub async fn withdraw(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(tenant, id): Ids<TenantId, InvitationId>,
) -> Result<StatusCode, ActionError> {
    action::invitations::withdraw(&app, &actor, tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Accept an invitation
///
/// Needs the token from the mail. Creates an account in the inviting tenant, with a confirmed address.
#[utoipa::path(post, path = "/auth/invitation", operation_id = "accept_invitation", tag = "account",
    request_body = Accept,
    responses((status = 201, description = "The account.", body = Joined),
        (status = 409, description = "The address already has an account.")))]
pub async fn accept(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(Accept { token, name, password }): Body<Accept>,
) -> Result<(StatusCode, Json<Joined>), ActionError> {
    let name = name.unwrap_or_default();
    let joined = action::invitations::accept(&app, &token, name, password, &client).await?;
    let joined = Joined { email: joined.email.to_string(), name: joined.name, confirmed: true };
    Ok((StatusCode::CREATED, Json(joined)))
}

#[cfg(test)]
mod tests;

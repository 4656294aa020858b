//! Routes of the users of all tenants, and of operators.

use axum::Json;
use axum::extract::State;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::step_up::{self, GivenProof};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id, Query};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::users::{AccountJson, RemoveFactors};
use rpcgate_store::{AccountFilter, UserId};
use serde::Deserialize;
use std::sync::Arc;

/// The filter of users.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct UserQuery {
    /// Only the user with this address.
    pub email: Option<String>,
    /// Only members of this tenant.
    pub tenant_id: Option<String>,
}

/// List the users of all tenants, and operators
///
/// In the order of their identifiers, which is approximately the order of their creation.
#[utoipa::path(get, path = "/operator/users", operation_id = "operator_list_users", tag = "operator",
   params(("email" = Option<String>, Query, description = "Only the user with this address."),
       ("tenant_id" = Option<String>, Query, format = "uuid", description = "Only members of this tenant."),
        Page),
    responses((status = 200, description = "The users.", body = [AccountJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(query): Query<UserQuery>,
) -> Result<ListPage<AccountJson>, ActionError> {
    let tenant = query.tenant_id.map(|id| id.parse()).transpose();
    let tenant = tenant.map_err(|_| ActionError::named("tenant_id", "must be a UUID"))?;
    let filter = AccountFilter { email: query.email, tenant };
    let after = page.read(|cursor| cursor.parse().ok())?;
    let accounts = action::operator::users::list(&app, &filter, after, page.limit).await?;
    let last = accounts.last().filter(|_| accounts.len() as u64 == page.limit);
    let next = last.map(|last| last.user.id.to_string());
    Ok(page.page(accounts, next).map(AccountJson::from))
}

/// Unlock a user
///
/// Ends the locks after five wrong passwords and after five wrong second factors.
#[utoipa::path(post, path = "/operator/users/{id}/unlock", operation_id = "operator_unlock_user", tag = "operator",
    responses((status = 200, description = "The user as it is now.", body = AccountJson)))]
pub async fn unlock(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<UserId>,
) -> Result<Json<AccountJson>, ActionError> {
    Ok(Json(action::operator::users::unlock(&app, &actor, id).await?.into()))
}

/// Reset the password of a user
///
/// Removes the password at once, ends all sessions, and mails the user a link that sets another password within an
/// hour. After that the user must request another link, as with a forgotten password. Open invitations that the user
/// made are withdrawn. A log-in session needs a proof from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(post, path = "/operator/users/{id}/reset", operation_id = "operator_reset_user", tag = "operator",
    responses((status = 200, description = "The user as it is now.", body = AccountJson),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "The user is disabled.")))]
pub async fn reset(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<UserId>,
) -> Result<Json<AccountJson>, ActionError> {
    Ok(Json(action::operator::users::reset(&app, &actor, id).await?.into()))
}

/// Remove the second factors of a user
///
/// For a user who has lost them. Removes the authenticator app, all passkeys and the recovery codes, and ends all
/// sessions. The user logs in with the password alone, and gets the reason by mail and by a notification. A log-in
/// session needs a proof: `current_password`, or one from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(post, path = "/operator/users/{id}/remove-factors", operation_id = "operator_remove_factors",
    tag = "operator", request_body = RemoveFactors,
    responses((status = 200, description = "The user as it is now.", body = AccountJson),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 409, description = "The user has no second factor, or it is the operator's own account.")))]
pub async fn remove_factors(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    actor: Actor,
    Id(id): Id<UserId>,
    Body(RemoveFactors { reason, current_password }): Body<RemoveFactors>,
) -> Result<Json<AccountJson>, ActionError> {
    let proof = current_password.map(GivenProof::Password);
    step_up::require(&app, &session, proof, &client).await?;
    Ok(Json(action::operator::users::remove_factors(&app, &actor, id, &reason).await?.into()))
}

/// Disable a user
///
/// Ends all sessions, withdraws the invitations that the user made, and prevents log-ins and password resets. The keys
/// of the tenant keep working: suspend the tenant to stop them. A log-in session needs a proof from the last ten
/// minutes (`POST /auth/proof`).
#[utoipa::path(post, path = "/operator/users/{id}/disable", operation_id = "operator_disable_user", tag = "operator",
    responses((status = 200, description = "The user as it is now.", body = AccountJson),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "It is the operator's own account.")))]
pub async fn disable(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<UserId>,
) -> Result<Json<AccountJson>, ActionError> {
    Ok(Json(action::operator::users::disable(&app, &actor, id, true).await?.into()))
}

/// Enable a disabled user
///
/// A log-in session needs a proof from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(post, path = "/operator/users/{id}/enable", operation_id = "operator_enable_user", tag = "operator",
    responses((status = 200, description = "The user as it is now.", body = AccountJson),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "It is the operator's own account.")))]
pub async fn enable(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<UserId>,
) -> Result<Json<AccountJson>, ActionError> {
    Ok(Json(action::operator::users::disable(&app, &actor, id, false).await?.into()))
}

#[cfg(test)]
mod tests;

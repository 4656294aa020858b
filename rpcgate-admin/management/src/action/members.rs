//! The members of the caller's tenant and their roles.

use super::actor::Actor;
use super::factors::to_the_end;
use super::security;
use super::tenants::own_tenant;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::identity::role::Permission;
use crate::mail::SecurityEvent;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{MemberChange, MemberChangeOutcome, Role, User, UserId, Versioned};
use std::sync::Arc;

const UNKNOWN: ActionError = ActionError::NotFound("user");
const LAST_OWNER: ActionError =
    ActionError::Refused(ErrorCode::LastOwner, "this is the last owner: make another member an owner first");

/// The error for a user whose role does not permit an action.
pub(super) const REFUSED: ActionError = ActionError::Forbidden("your role does not permit this");

/// Reports whether a member with the role `by` may change a user's role from `before` to `after`; `None` means no
/// membership.
pub fn may_change(by: Role, before: Option<Role>, after: Option<Role>) -> bool {
    needed(before, after).is_granted_to(by)
}

pub(super) fn needed(before: Option<Role>, after: Option<Role>) -> Permission {
    let is_about_owners = [before, after].contains(&Some(Role::Owner));
    if is_about_owners { Permission::ManageOwners } else { Permission::ManageMembers }
}

/// Reports whether a change of a user's role from `before` to `after` needs a proof, because it concerns an owner or an
/// admin. Otherwise a thief with a stolen access token could make an account an owner, or remove the owners.
pub fn needs_proof(before: Option<Role>, after: Option<Role>) -> bool {
    [before, after].into_iter().flatten().any(|role| Permission::ManageMembers.is_granted_to(role))
}

/// Lists the members, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant.
pub async fn list(app: &AppState, actor: &Actor, tenant: TenantId) -> Result<Vec<User>, ActionError> {
    Ok(app.store.members(own_tenant(actor, tenant)?).await?)
}

/// Returns a member.
///
/// # Errors
/// [`ActionError::NotFound`] for a user who is not a member of the caller's tenant.
pub async fn get(app: &AppState, actor: &Actor, tenant: TenantId, id: UserId) -> Result<User, ActionError> {
    app.store.member(own_tenant(actor, tenant)?, id).await?.ok_or(UNKNOWN)
}

/// Changes a member's role and returns the changed member. Invitations of the member that exceed its new role are
/// withdrawn. The owners are notified if the role is raised to owner or admin.
///
/// # Errors
/// [`ActionError::NotFound`] for a user who is not a member of the caller's tenant; [`ActionError::Forbidden`] if the
/// caller may not make this change to this member; [`ErrorCode::ProofRequired`] if it [needs a proof](needs_proof);
/// [`ErrorCode::LastOwner`] for the last owner.
pub async fn set_role(
    app: &Arc<AppState>,
    actor: &Actor,
    tenant: TenantId,
    id: UserId,
    role: Role,
) -> Result<User, ActionError> {
    let app = app.clone();
    let actor = actor.clone();
    to_the_end(async move { change_role(&app, &actor, tenant, id, role).await }).await
}

async fn change_role(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    id: UserId,
    role: Role,
) -> Result<User, ActionError> {
    let tenant = own_tenant(actor, tenant)?;
    let change = MemberChange { tenant, member: id, by: actor.user.id, role: Some(role) };
    let grantable: Vec<_> =
        Role::ALL.into_iter().filter(|given| may_change(role, None, Some(*given))).collect();
    let entry = actor.entry(Some(tenant), ("member.role_changed", id, role), app.now());
    let permits = |by, before| {
        may_change(by, Some(before), Some(role)) && actor.covers(needed(Some(before), Some(role)))
    };
    let before = get(app, actor, tenant, id).await?.role;
    let permits = proven(actor, before, Some(role), permits)?;
    let store = actor.expecting(&actor.store(&app.store), Versioned::Member(tenant, id));
    match store.change_member(&change, permits, &grantable, &entry).await? {
        MemberChangeOutcome::Done(user) => {
            let changed = SecurityEvent::RoleChanged { role: role.as_str() };
            security::notify(app, &user, changed, actor.address).await;
            if before != Role::Owner && needs_proof(None, Some(role)) {
                let raised = SecurityEvent::RoleRaised { role, member: &user.email, by: &actor.user.email };
                security::notify_owners(app, tenant, raised, actor.address).await;
            }
            Ok(user)
        }
        other => unchanged(other),
    }
}

/// Removes a member, or lets the caller leave. The account is deleted with its sessions and invitations. Everything
/// else that it created, including keys, belongs to the tenant and stays.
///
/// # Errors
/// Those of [`set_role`].
pub async fn remove(
    app: &Arc<AppState>,
    actor: &Actor,
    tenant: TenantId,
    id: UserId,
) -> Result<(), ActionError> {
    let app = app.clone();
    let actor = actor.clone();
    to_the_end(async move { remove_member(&app, &actor, tenant, id).await }).await
}

async fn remove_member(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    id: UserId,
) -> Result<(), ActionError> {
    let tenant = own_tenant(actor, tenant)?;
    let member = get(app, actor, tenant, id).await?;
    let by = actor.user.id;
    if id == by {
        // It deletes the caller's own account.
        actor.expect_proof()?;
    }
    let change = MemberChange { tenant, member: id, by, role: None };
    let entry = actor.entry(Some(tenant), ("member.removed", id, member.email), app.now());
    let permits = |role, before| id == by || may_change(role, Some(before), None);
    let permits = proven(actor, member.role, None, permits)?;
    let store = actor.expecting(&actor.store(&app.store), Versioned::Member(tenant, id));
    match store.change_member(&change, permits, &[], &entry).await? {
        MemberChangeOutcome::Done(user) => {
            security::notify(app, &user, SecurityEvent::MemberRemoved, actor.address).await;
            Ok(())
        }
        other => unchanged(other).map(drop),
    }
}

/// Returns `permits` combined with the check of the proof, for a change of a member whose role was just read as
/// `before`.
///
/// # Errors
/// [`ErrorCode::ProofRequired`]. A caller whose role does not permit the change gets the same answer as without this
/// check.
fn proven(
    actor: &Actor,
    before: Role,
    after: Option<Role>,
    permits: impl Fn(Role, Role) -> bool,
) -> Result<impl Fn(Role, Role) -> bool, ActionError> {
    if needs_proof(Some(before), after) && permits(actor.user.role, before) {
        actor.expect_proof()?;
    }
    let is_proved = actor.is_proved;
    // The role may have changed when the transaction runs.
    Ok(move |by, before| permits(by, before) && (is_proved || !needs_proof(Some(before), after)))
}

fn unchanged(outcome: MemberChangeOutcome) -> Result<User, ActionError> {
    match outcome {
        MemberChangeOutcome::Done(user) | MemberChangeOutcome::Unchanged(user) => Ok(user),
        MemberChangeOutcome::Refused => Err(REFUSED),
        MemberChangeOutcome::LastOwner => Err(LAST_OWNER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_alone_are_about_owners_and_admins_about_the_others() {
        let every: Vec<_> = Role::ALL.into_iter().map(Some).chain([None]).collect();
        for by in Role::ALL {
            for before in &every {
                for after in &every {
                    let is_about_owners = *before == Some(Role::Owner) || *after == Some(Role::Owner);
                    let expected = by == Role::Owner || (by == Role::Admin && !is_about_owners);
                    assert_eq!(may_change(by, *before, *after), expected, "{by} makes {before:?} {after:?}");
                }
            }
        }
    }
}

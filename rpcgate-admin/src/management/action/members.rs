//! Members of the caller's tenant: their roles, and who leaves.

use super::actor::Actor;
use super::tenants::own;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::identity::role::Permission;
use crate::store::{MemberChange, MemberChanged, Role, User, UserId};
use rpcgate_core::caller::TenantId;

const UNKNOWN: ActionError = ActionError::NotFound("user");
const LAST_OWNER: ActionError =
    ActionError::Conflict("this is the last owner: make somebody else an owner before");

/// What somebody is told who may not.
pub(super) const REFUSED: ActionError = ActionError::Forbidden("your role does not permit this");

/// Whether a member of the role `by` may see to it that somebody who has the role `before` has the role `after`; none:
/// is no member.
pub(super) fn may(by: Role, before: Option<Role>, after: Option<Role>) -> bool {
    let is_about_owners = [before, after].contains(&Some(Role::Owner));
    let needed = if is_about_owners { Permission::ManageOwners } else { Permission::ManageMembers };
    by.allows(needed)
}

/// The members, oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant.
pub async fn list(app: &AppState, actor: &Actor, tenant: TenantId) -> Result<Vec<User>, ActionError> {
    Ok(app.store.members(own(actor, tenant)?).await?)
}

/// Gives a member another role: the member as it is then. Invitations that it made, and with its new role could not
/// make any more, are withdrawn: what somebody may not do is not to be done with what was prepared before.
///
/// # Errors
/// [`ActionError::NotFound`] for somebody who is no member of the caller's tenant; [`ActionError::Forbidden`] if the
/// caller may not make this of this member; [`ActionError::Conflict`] for the last owner.
pub async fn set_role(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    id: UserId,
    role: Role,
) -> Result<User, ActionError> {
    let tenant = own(actor, tenant)?;
    let change = MemberChange { tenant, member: id, by: actor.user.id, role: Some(role) };
    let gives: Vec<_> = Role::ALL.into_iter().filter(|given| may(role, None, Some(*given))).collect();
    let entry = actor.entry(Some(tenant), ("member.role_changed", id, role), app.now());
    let permits = |by, before| may(by, Some(before), Some(role));
    done(app.store.change_member(&change, permits, &gives, &entry).await?)
}

/// Removes a member, or lets the caller leave: the account is gone with its sessions and the invitations that it made.
/// What it made else, keys too, is the tenant's and stays.
///
/// # Errors
/// As [`set_role`].
pub async fn remove(app: &AppState, actor: &Actor, tenant: TenantId, id: UserId) -> Result<(), ActionError> {
    let tenant = own(actor, tenant)?;
    let member = app.store.member(tenant, id).await?.ok_or(UNKNOWN)?;
    let by = actor.user.id;
    let change = MemberChange { tenant, member: id, by, role: None };
    let entry = actor.entry(Some(tenant), ("member.removed", id, member.email), app.now());
    let permits = |role, before| id == by || may(role, Some(before), None);
    done(app.store.change_member(&change, permits, &[], &entry).await?).map(drop)
}

fn done(changed: MemberChanged) -> Result<User, ActionError> {
    match changed {
        MemberChanged::Done(user) => Ok(user),
        MemberChanged::Refused => Err(REFUSED),
        MemberChanged::LastOwner => Err(LAST_OWNER),
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
                    assert_eq!(may(by, *before, *after), expected, "{by} makes {before:?} {after:?}");
                }
            }
        }
    }
}

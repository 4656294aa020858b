//! Invitations to join a tenant, by mail.
//!
//! An invitation does not reveal which addresses have an account. An address with an account is invited like any other;
//! only the mail, which just its owner reads, says that it cannot join.

use super::accounts::Applicant;
use super::actor::Actor;
use super::members::{REFUSED, may_change, needed, needs_proof};
use super::security;
use super::sessions::limit_attempts;
use super::tenants::own_tenant;
use super::text;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::identity::password::Typed;
use crate::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::mail::{self, Mail, SecurityEvent};
use rpcgate_core::caller::TenantId;
use rpcgate_store::{
    AttemptKind, Audit, Digest, Invitation, InvitationAcceptance, InvitationId, InviteOutcome, Role, UserId,
    fresh_id,
};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The validity of an invitation.
pub const LIFE: Duration = Duration::from_secs(7 * 86_400);

/// The path of the page that an invitation's link leads to; `?token=…` follows.
pub const MAIL_PATH: &str = "/invitation";

const MEMBER: ActionError = ActionError::Taken { what: "member", value: "e-mail address" };

/// Lists the open invitations of the caller's tenant, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant.
pub async fn list(app: &AppState, actor: &Actor, tenant: TenantId) -> Result<Vec<Invitation>, ActionError> {
    Ok(app.store.invitations(own_tenant(actor, tenant)?, app.now()).await?)
}

/// Invites the owner of `email` to join the caller's tenant as `role`, and sends a mail with the token. An earlier
/// invitation of the same address becomes invalid. The owners are notified about a new owner or admin. The work
/// completes even if the client disconnects.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant; [`ActionError::Forbidden`] if the caller's role does not permit it;
/// `ActionError::UNCONFIRMED` if the caller's own address, which the mail names, is not confirmed;
/// `ActionError::PROOF_REQUIRED` if the role [needs a proof](needs_proof); [`ActionError::Invalid`] for an invalid
/// address; [`ActionError::Taken`] for a member's address; [`ActionError::Conflict`] if there are too many;
/// [`ActionError::TooMany`] after too many attempts from one client, or mails to one address from any tenant;
/// [`ActionError::Unavailable`].
pub async fn invite(
    app: &Arc<AppState>,
    actor: &Actor,
    tenant: TenantId,
    email: &str,
    role: Role,
) -> Result<Invitation, ActionError> {
    let tenant = own_tenant(actor, tenant)?;
    app.admit_attempt(actor.address).await?;
    actor.expect_confirmed()?;
    if !actor.covers(needed(None, Some(role))) || !may_change(actor.user.role, None, Some(role)) {
        return Err(REFUSED);
    }
    let manages_members = needs_proof(None, Some(role));
    if manages_members {
        actor.expect_proof()?;
    }
    let now = app.now();
    let email = mail::address(email).map_err(|error| ActionError::field("email", error))?;
    let inviter = mail::address(&actor.user.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    limit_attempts(app, AttemptKind::Invitations(&email.to_string()), now).await?;
    let token = Opaque::make(OpaqueKind::Invitation)?;
    let invitation = Invitation {
        id: InvitationId(fresh_id(now)),
        tenant,
        by: actor.user.id,
        email: email.to_string(),
        role,
        created_at: now,
        expires_at: now.plus(LIFE),
    };
    let event = ("member.invited", invitation.id, format!("{email}, {role}"));
    let entry = actor.entry(Some(tenant), event, now);
    let (app, store, made) = (app.clone(), actor.store(&app.store), invitation.clone());
    let host = actor.user.clone();
    let address = actor.address;
    let work = async move {
        let permits = |by| may_change(by, None, Some(role));
        let mail = match store.invite(&made, &Digest(token.hash().0), permits, &entry).await? {
            InviteOutcome::Created => {
                let link = format!("{}{MAIL_PATH}?token={}", app.settings.dash_url, token.expose());
                Mail::invitation(email, &inviter, role.as_str(), &link, LIFE)
            }
            InviteOutcome::HasAccount => Mail::invited_in_vain(email, &inviter),
            InviteOutcome::Member => return Err(MEMBER),
            InviteOutcome::Refused => return Err(REFUSED),
        };
        if manages_members {
            let invited = SecurityEvent::MemberInvited { role, invited: &made.email, by: &host.email };
            security::notify_owners(&app, tenant, invited, address).await;
        }
        app.mails.send(&mail, now).await.map_err(ActionError::from)
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("inviting ended early: {error}")))??;
    Ok(invitation)
}

/// Withdraws an open invitation, which invalidates its token.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant's invitation, or one that is no longer open.
pub async fn withdraw(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    id: InvitationId,
) -> Result<(), ActionError> {
    let tenant = own_tenant(actor, tenant)?;
    let now = app.now();
    let found = app.store.invitation(tenant, id, now).await?;
    let invitation = found.ok_or(ActionError::NotFound("invitation"))?;
    let event = ("invitation.withdrawn", id, invitation.email);
    Ok(actor.audited_store(&app.store, Some(tenant), event, now).withdraw_invitation(tenant, id, now).await?)
}

/// Creates an account for the holder of an invitation's token: a member of the tenant, whose address counts as
/// confirmed because the token was mailed to it.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one client, or while too many passwords are being hashed;
/// [`ActionError::Invalid`] for an invalid name or password; `ActionError::BAD_TOKEN` if the token is unknown or has
/// expired; [`ActionError::Taken`] if the address has got an account meanwhile; [`ActionError::Unavailable`].
pub async fn accept(
    app: &Arc<AppState>,
    token: &str,
    name: String,
    password: Typed,
    client: &Client,
) -> Result<Applicant, ActionError> {
    app.admit_attempt(client.address).await?;
    let now = app.now();
    let name = text::line("name", &name)?;
    let password = password.choose().map_err(|error| ActionError::field("password", error))?;
    let hash = OpaqueHash::of(OpaqueKind::Invitation, token).ok_or(ActionError::BAD_TOKEN)?;
    let token = Digest(hash.0);
    // Hashing is expensive, so it is done only for a valid invitation.
    let found = app.store.invitation_by_token(&token, now).await?;
    let invitation = found.ok_or(ActionError::BAD_TOKEN)?;
    let email = mail::address(&invitation.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    let password = app.passwords.hash(password).await?;
    let acceptance =
        InvitationAcceptance { token, user: UserId(fresh_id(now)), name: &name, password: &password };
    let entry = Audit {
        tenant: None,
        user: None,
        action: "member.joined".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at: now,
        detail: String::new(),
    };
    let joined = app.store.join(&acceptance, &entry, now).await?;
    joined.ok_or(ActionError::BAD_TOKEN)?;
    Ok(Applicant { email, name })
}

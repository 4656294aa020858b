//! Invitations to join a tenant, by mail.
//!
//! Whoever invites learns nothing of who has an account elsewhere: an address that has one is invited like any other,
//! only that the mail, which its owner alone reads, says that it cannot join.

use super::accounts::Applicant;
use super::actor::Actor;
use super::members::{REFUSED, may};
use super::sessions::expect_few;
use super::tenants::own;
use super::text;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::password::Typed;
use crate::management::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::management::mail::{self, Mail};
use crate::store::{
    Audit, Counted, Digest, Invitation, InvitationId, Invited, Joining, Role, UserId, fresh_id,
};
use rpcgate_core::caller::TenantId;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// How long an invitation is good.
pub const LIFE: Duration = Duration::from_secs(7 * 86_400);

/// The page below the dashboard that an invitation's link leads to; `?token=…` follows.
pub const MAIL_PATH: &str = "/invitation";

const BAD_TOKEN: &str = "the token is not valid, was used, or has expired";
const MEMBER: ActionError = ActionError::Taken { what: "member", value: "e-mail address" };

fn invalid(why: &(impl ToString + ?Sized)) -> ActionError {
    ActionError::Invalid(why.to_string())
}

/// The open invitations of the caller's tenant, oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant.
pub async fn list(app: &AppState, actor: &Actor, tenant: TenantId) -> Result<Vec<Invitation>, ActionError> {
    Ok(app.store.invitations(own(actor, tenant)?, app.now()).await?)
}

/// Invites whoever has `email` to join the caller's tenant as `role`, and sends a mail with the token. An invitation of
/// the same address before is good for nothing any more. What has begun is brought to an end also when nobody waits for
/// it.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant; [`ActionError::Forbidden`] if the caller's role does not permit it, or
/// before the caller's own address is confirmed, for the mail names it; [`ActionError::Invalid`] for an address that is
/// none; [`ActionError::Taken`] for a member's; [`ActionError::Conflict`] if there are too many; [`ActionError::TooMany`]
/// after too many attempts from one client, or mails to one address; [`ActionError::Unavailable`].
pub async fn invite(
    app: &Arc<AppState>,
    actor: &Actor,
    tenant: TenantId,
    email: &str,
    role: Role,
) -> Result<Invitation, ActionError> {
    let tenant = own(actor, tenant)?;
    app.admit_attempt(actor.address).await?;
    if actor.user.confirmed_at.is_none() {
        return Err(ActionError::Forbidden("confirm your e-mail address before you invite somebody"));
    }
    let now = app.now();
    let email = mail::address(email).map_err(|error| invalid(&error))?;
    let host = mail::address(&actor.user.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    expect_few(app, Counted::Invitations(&email.to_string(), tenant), now).await?;
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
    let told = ("member.invited", invitation.id, format!("{email}, {role}"));
    let entry = actor.entry(Some(tenant), told, now);
    let (app, made) = (app.clone(), invitation.clone());
    let work = async move {
        let permits = |by| may(by, None, Some(role));
        let mail = match app.store.invite(&made, &Digest(token.hash().0), permits, &entry).await? {
            Invited::Done => {
                let link = format!("{}{MAIL_PATH}?token={}", app.settings.dash_url, token.expose());
                Mail::invitation(email, &host, role.as_str(), &link, LIFE)
            }
            Invited::HasAccount => Mail::invited_in_vain(email, &host),
            Invited::Member => return Err(MEMBER),
            Invited::Refused => return Err(REFUSED),
        };
        app.mails.send(&mail, now).await.map_err(ActionError::from)
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("inviting ended early: {error}")))??;
    Ok(invitation)
}

/// Withdraws an open invitation: its token is good for nothing any more.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant's, or one that is not open any more.
pub async fn withdraw(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    id: InvitationId,
) -> Result<(), ActionError> {
    let (tenant, now) = (own(actor, tenant)?, app.now());
    let found = app.store.invitation(tenant, id, now).await?;
    let invitation = found.ok_or(ActionError::NotFound("invitation"))?;
    let told = ("invitation.withdrawn", id, invitation.email);
    Ok(actor.noting(&app.store, Some(tenant), told, now).withdraw_invitation(tenant, id, now).await?)
}

/// Makes an account for whoever has the token of an invitation: a member of the tenant, whose address is confirmed by
/// the mail that the token came in.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one client, or while too many passwords are hashed;
/// [`ActionError::Invalid`] says what is wrong with the name or the password, or that the token is none, or not any more;
/// [`ActionError::Taken`] if the address has an account by now; [`ActionError::Unavailable`].
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
    let password = password.choose().map_err(|error| invalid(&error))?;
    let hash = OpaqueHash::of(OpaqueKind::Invitation, token).ok_or_else(|| invalid(BAD_TOKEN))?;
    let token = Digest(hash.0);
    // A hash is expensive, so it is computed only for who was invited.
    let found = app.store.invitation_by_token(&token, now).await?;
    let invitation = found.ok_or_else(|| invalid(BAD_TOKEN))?;
    let email = mail::address(&invitation.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    let password = app.passwords.hash(password).await?;
    let joining = Joining { token, user: UserId(fresh_id(now)), name: &name, password: &password };
    let entry = Audit {
        tenant: None,
        user: None,
        action: "member.joined".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at: now,
        detail: String::new(),
    };
    let joined = app.store.join(&joining, &entry, now).await?;
    joined.ok_or_else(|| invalid(BAD_TOKEN))?;
    Ok(Applicant { email, name })
}

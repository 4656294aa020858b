//! Notifications to users about the security of their accounts.

use super::actor::Actor;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::identity::address::AddressGroup;
use crate::mail::{self, Mail, SecurityEvent};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{
    AccountNotice, Attempt, AttemptKind, DeviceFamiliarity, NotificationId, NotificationKind, Role, User,
    fresh_id,
};
use std::net::IpAddr;

/// The database writes for one event: the notification and the mail.
pub(super) const WRITES: usize = 2;

/// Notifies a user by mail, and by a private notification, about an event in the account that a client at `address`
/// caused. The event has happened in any case, so an error is only logged. Events about keys are only mailed, a few
/// times in a quarter of an hour. A user whose address was never confirmed is not notified, because the address may
/// belong to someone else.
pub async fn notify(app: &AppState, user: &User, event: SecurityEvent<'_>, address: IpAddr) {
    if user.confirmed_at.is_none() {
        return;
    }
    if let Err(error) = send(app, user, event, address).await {
        tracing::warn!(%error, user = %user.id, "a user could not be notified about a security event");
    }
}

/// Notifies the acting user with [`notify`]; at the command line there is no user to notify.
pub(super) async fn notify_actor(app: &AppState, actor: &Actor, event: SecurityEvent<'_>) {
    if actor.command_line.is_none() {
        notify(app, &actor.user, event, actor.address).await;
    }
}

/// Notifies the owners of a tenant with [`notify`] about a change of its owners or admins. Errors are only logged.
pub(super) async fn notify_owners(
    app: &AppState,
    tenant: TenantId,
    event: SecurityEvent<'_>,
    address: IpAddr,
) {
    match app.store.members(tenant).await {
        Ok(members) => {
            for owner in members.iter().filter(|member| member.role == Role::Owner) {
                notify(app, owner, event, address).await;
            }
        }
        Err(error) => {
            tracing::warn!(%error, %tenant, "the owners could not be notified about a security event");
        }
    }
}

async fn send(
    app: &AppState,
    user: &User,
    event: SecurityEvent<'_>,
    address: IpAddr,
) -> Result<(), ActionError> {
    let now = app.now();
    if event.is_frequent() {
        let counted = app.store.begin_attempt(AttemptKind::KeyMails(&user.email), now).await?;
        if let Attempt::Locked(_) = counted {
            return Ok(());
        }
    }
    if let Some(tenant) = user.tenant.filter(|_| event.is_listed()) {
        let id = NotificationId(fresh_id(now));
        let text = event.summary();
        let user = Some(user.id);
        let kind = NotificationKind::Security;
        app.store.put_notice(&AccountNotice { id, tenant, user, kind, text, at: now }).await?;
    }
    let to = mail::address(&user.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    let mail = Mail::security(to, event, address, now, &app.settings.dash_url);
    Ok(app.mails.send(&mail, now).await?)
}

/// Stores the device of a log-in, and notifies the user about a new one: another program, or another network (an IPv4
/// /24 or an IPv6 /48, because addresses within a network change often). The first log-in causes no notification.
pub(super) async fn note_device(app: &AppState, user: &User, client: &Client, now: Time) {
    let device = format!("{}\n{}", AddressGroup::of_site(client.address), client.agent);
    match app.store.note_device(user.id, &device, now).await {
        Ok(DeviceFamiliarity::New) => {
            let event = SecurityEvent::NewDevice { agent: &client.agent };
            notify(app, user, event, client.address).await;
        }
        Ok(DeviceFamiliarity::Known | DeviceFamiliarity::First) => {}
        Err(error) => {
            tracing::warn!(%error, user = %user.id, "the device of a log-in could not be remembered");
        }
    }
}

//! The users' preferences: the kinds of notifications, and their delivery channels.

use super::actor::Actor;
use super::members::REFUSED;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::identity::role::Permission;
use rpcgate_store::{NotificationKind, NotificationPreference, Role};

/// Returns the permission that members need to get notifications of this kind.
pub(super) const fn needed(kind: NotificationKind) -> Option<Permission> {
    match kind {
        NotificationKind::Invoice | NotificationKind::Prices => Some(Permission::ReadBilling),
        _ => None,
    }
}

/// Reports whether members with this role get notifications of this kind.
pub(super) fn is_for(kind: NotificationKind, role: Role) -> bool {
    needed(kind).is_none_or(|permission| permission.is_granted_to(role))
}

/// Returns the default delivery channel for this kind of notification. Mails are on for invoices and prices if the user
/// pays them, for suspensions and failing webhooks if the user can act on them, for decisions about requests that the
/// user can make, and for the security of the account.
pub(super) fn default_preference(kind: NotificationKind, role: Role) -> NotificationPreference {
    let mail = match kind {
        NotificationKind::Security => true,
        NotificationKind::Invoice | NotificationKind::Prices => matches!(role, Role::Owner | Role::Billing),
        NotificationKind::Suspension => Permission::ManageBilling.is_granted_to(role),
        NotificationKind::WebhookHealth => Permission::ManageWebhooks.is_granted_to(role),
        NotificationKind::LimitDecision => Permission::RequestLimits.is_granted_to(role),
        _ => false,
    };
    NotificationPreference { shown: true, mail }
}

/// Lists the user's preferences, for each kind that the user's role gets.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    actor: &Actor,
) -> Result<Vec<(NotificationKind, NotificationPreference)>, ActionError> {
    let chosen = app.store.notification_preferences(actor.user.id).await?;
    let role = actor.user.role;
    let kinds = NotificationKind::ALL.into_iter().filter(|kind| is_for(*kind, role));
    let preference = |kind| chosen.get(&kind).copied().unwrap_or_else(|| default_preference(kind, role));
    Ok(kinds.map(|kind| (kind, preference(kind))).collect())
}

/// Changes the user's preference for one kind; `None` leaves a value unchanged.
///
/// # Errors
/// [`ActionError::Forbidden`] for a kind that the user's role does not get; [`ActionError::Invalid`] for switching off
/// mails about the security of the account, which would help a thief to stay unnoticed; [`ActionError::Unavailable`].
pub async fn update(
    app: &AppState,
    actor: &Actor,
    kind: NotificationKind,
    shown: Option<bool>,
    mail: Option<bool>,
) -> Result<NotificationPreference, ActionError> {
    let user = &actor.user;
    if !is_for(kind, user.role) {
        return Err(REFUSED);
    }
    if kind == NotificationKind::Security && mail == Some(false) {
        return Err(ActionError::named("mail", "of account.security cannot be switched off"));
    }
    let chosen = app.store.notification_preferences(user.id).await?.get(&kind).copied();
    let before = chosen.unwrap_or_else(|| default_preference(kind, user.role));
    let after =
        NotificationPreference { shown: shown.unwrap_or(before.shown), mail: mail.unwrap_or(before.mail) };
    // A choice equal to the current default is stored too, because another role has other defaults.
    if after != before || (mail.is_some() && chosen.is_none()) {
        let detail = format!("{}: shown {}, mail {}", kind.name(), after.shown, after.mail);
        let event = ("notification.preference_changed", user.id, detail);
        let store = actor.audited_store(&app.store, user.tenant, event, app.now());
        store.put_notification_preference(user.id, kind, after).await?;
    }
    Ok(after)
}

//! Notifications as the members of a tenant see them. Each user has its own read marks and preferences.

use super::actor::Actor;
use super::notification_preferences::{default_preference, is_for, needed};
use super::usage::if_readable;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::mail::{self, Address, Mail, MailObject};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Notice;
use rpcgate_store::{
    AccountNotice, Audit, MailedNotice, Notification, NotificationId, NotificationKind, OutgoingMail,
    StoreError, User, fresh_id,
};
use std::cmp::Reverse;
use std::time::Duration;

const MAX_LISTED: usize = 1_000;

/// The maximum number of unread notifications that are counted.
pub const MAX_COUNTED: u64 = 100;

/// The maximum age at which a notification is still mailed.
const MAILED_WITHIN: Duration = Duration::from_secs(86_400);

/// A notification with the read mark of the requesting user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserNotification {
    /// The identifier.
    pub id: NotificationId,
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub kind: NotificationKind,
    /// The text for people.
    pub text: String,
    /// The beginning of the UTC day or minute that it is about, or the time when it was raised.
    pub since: Time,
    /// The time when it was raised.
    pub at: Time,
    /// The requests of the day, or the calls refused in the minute, if it is about usage.
    pub counted: Option<u64>,
    /// The requests a day that the plan allows all keys of the tenant, if it is about them.
    pub allowed: Option<u64>,
    /// The time when the user read it.
    pub read_at: Option<Time>,
}

impl From<Notification> for UserNotification {
    fn from(one: Notification) -> Self {
        UserNotification {
            id: one.id,
            tenant: one.tenant,
            kind: one.notice.into(),
            text: one.text(),
            since: one.since,
            at: one.at,
            counted: Some(one.counted),
            allowed: one.allowed,
            read_at: None,
        }
    }
}

impl From<AccountNotice> for UserNotification {
    fn from(one: AccountNotice) -> Self {
        UserNotification {
            id: one.id,
            tenant: one.tenant,
            kind: one.kind,
            text: one.text,
            since: one.at,
            at: one.at,
            counted: None,
            allowed: None,
            read_at: None,
        }
    }
}

/// A user's notifications, possibly without those about usage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadableNotifications {
    /// The notifications, the newest first.
    pub all: Vec<UserNotification>,
    /// False while the notifications about usage cannot be read.
    pub is_complete: bool,
}

/// Lists the last 1,000 notifications of the tenant and of the user that the user wants to see, the newest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<UserNotification>, ActionError> {
    let about_usage = app.usage.notifications(actor.tenant()?).await?;
    listed(app, actor, about_usage).await
}

/// Lists the same, but leaves out those about usage while usage cannot be read, so that invoices and warnings stay
/// visible.
///
/// # Errors
/// Those of [`list`] that are not about usage.
pub async fn readable(app: &AppState, actor: &Actor) -> Result<ReadableNotifications, ActionError> {
    let about_usage = app.usage.notifications(actor.tenant()?).await.map_err(ActionError::from);
    let about_usage = if_readable(about_usage)?;
    let is_complete = about_usage.is_some();
    let all = listed(app, actor, about_usage.unwrap_or_default()).await?;
    Ok(ReadableNotifications { all, is_complete })
}

async fn listed(
    app: &AppState,
    actor: &Actor,
    about_usage: Vec<Notification>,
) -> Result<Vec<UserNotification>, ActionError> {
    let tenant = actor.tenant()?;
    let user = &actor.user;
    let about_usage = about_usage.into_iter().map(UserNotification::from);
    let notices = app.store.notices(tenant, user.id).await?.into_iter().map(UserNotification::from);
    let mut all: Vec<_> = about_usage.chain(notices).collect();
    if all.is_empty() {
        return Ok(all);
    }
    let chosen = app.store.notification_preferences(user.id).await?;
    let is_shown = |kind| chosen.get(&kind).is_none_or(|preference| preference.shown);
    all.retain(|one| may_read(actor, one.kind) && is_shown(one.kind));
    // A stable sort: notifications of the same time stay in the order in which they were read.
    all.sort_by_key(|one| Reverse(one.at));
    all.truncate(MAX_LISTED);
    let read = app.store.read_notifications(user.id).await?;
    for one in &mut all {
        one.read_at = read.get(&one.id).copied();
    }
    Ok(all)
}

/// Counts the user's unread notifications, up to [`MAX_COUNTED`]. Of those about usage, only the newest [`MAX_COUNTED`]
/// are examined, and none while the usage database is unavailable.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn count_unread(app: &AppState, actor: &Actor) -> Result<u64, ActionError> {
    let tenant = actor.tenant()?;
    let user = actor.user.id;
    let chosen = app.store.notification_preferences(user).await?;
    let is_shown = |kind: &NotificationKind| {
        may_read(actor, *kind) && chosen.get(kind).is_none_or(|preference| preference.shown)
    };
    let kinds: Vec<_> = NotificationKind::ALL.into_iter().filter(is_shown).collect();
    let about_usage: Vec<_> =
        Notice::ALL.into_iter().filter(|notice| is_shown(&NotificationKind::from(*notice))).collect();
    let newest = match app.usage.newest_notifications(tenant, &about_usage, MAX_COUNTED).await {
        Ok(newest) => newest,
        Err(error @ (StoreError::Unavailable(_) | StoreError::Busy)) => {
            tracing::debug!(%error, "unread notifications about usage could not be counted");
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    Ok(app.store.unread_notifications((tenant, user), &kinds, &newest, MAX_COUNTED).await?)
}

/// Reports whether the user gets notifications of this kind and the scopes of the request cover them.
fn may_read(actor: &Actor, kind: NotificationKind) -> bool {
    is_for(kind, actor.user.role) && needed(kind).is_none_or(|permission| actor.covers(permission))
}

/// Marks a notification as read by the user. Marking it again keeps the first time.
///
/// # Errors
/// [`ActionError::NotFound`] if the notification is not the tenant's or not for the user, [`ActionError::Unavailable`].
pub async fn read(
    app: &AppState,
    actor: &Actor,
    id: NotificationId,
) -> Result<UserNotification, ActionError> {
    let tenant = actor.tenant()?;
    let user = &actor.user;
    // The usage database, which may be unavailable, is queried last.
    let found = match app.store.notice(tenant, user.id, id).await? {
        Some(found) => Some(found.into()),
        None => app.usage.notification(tenant, id).await?.map(UserNotification::from),
    };
    let found = found.filter(|one| may_read(actor, one.kind));
    let notification = found.ok_or(ActionError::NotFound("notification"))?;
    let read_at = app.store.read_notification(user.id, id, app.now()).await?;
    Ok(UserNotification { read_at: Some(read_at), ..notification })
}

/// Marks all notifications that are [readable] as read by the user, and returns the number of newly read ones.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn read_all(app: &AppState, actor: &Actor) -> Result<usize, ActionError> {
    let unread = readable(app, actor).await?.all.into_iter().filter(|one| one.read_at.is_none());
    let unread: Vec<_> = unread.map(|one| one.id).collect();
    app.store.read_these_notifications(actor.user.id, &unread, app.now()).await?;
    Ok(unread.len())
}

/// Raises a notification for the members of a tenant, and mails it to those who want mails.
///
/// # Errors
/// [`ActionError::NotFound`] for a tenant that does not exist, [`ActionError::Unavailable`].
pub async fn raise(
    app: &AppState,
    tenant: TenantId,
    kind: NotificationKind,
    text: impl Into<String>,
) -> Result<(), ActionError> {
    let text: String = text.into();
    raise_about(app, tenant, kind, &text, |_| kind.into()).await
}

/// Raises a notification whose mail to each member links to the result of `object`.
///
/// # Errors
/// Those of [`raise`].
pub(super) async fn raise_about(
    app: &AppState,
    tenant: TenantId,
    kind: NotificationKind,
    text: &str,
    object: impl Fn(&User) -> MailObject,
) -> Result<(), ActionError> {
    let dash_url = &app.settings.dash_url;
    let mail = |user: &User, to: Address| Mail::notification(to, text, dash_url, object(user));
    raise_with(app, tenant, kind, text, mail).await
}

/// Raises a notification whose mail to each member is the result of `mail`.
///
/// # Errors
/// Those of [`raise`].
pub(super) async fn raise_with(
    app: &AppState,
    tenant: TenantId,
    kind: NotificationKind,
    text: &str,
    mail: impl Fn(&User, Address) -> Mail,
) -> Result<(), ActionError> {
    let prepared = prepare(app, tenant, kind, text, mail).await?;
    let rooms = app.store.put_mailed_notice(prepared.notice()).await?;
    app.mails.stored(rooms);
    Ok(())
}

/// Raises a notification like [`raise_with`] under the caller's identifier, and adds `entry` to the audit log, unless a
/// notification with this identifier exists. Returns whether it was raised.
///
/// # Errors
/// Those of [`raise`].
pub(super) async fn raise_once(
    app: &AppState,
    entry: Audit,
    notice: AccountNotice,
    mail: impl Fn(&User, Address) -> Mail,
) -> Result<bool, ActionError> {
    let mails = mails_to_members(app, notice.tenant, notice.kind, mail).await?;
    let mails = app.mails.sealed_all(&mails, notice.at)?;
    let mailed = MailedNotice { notice: &notice, mails: &mails };
    let Some(rooms) = app.store.with_audit_entry(entry).put_mailed_notice_once(mailed).await? else {
        return Ok(false);
    };
    app.mails.stored(rooms);
    Ok(true)
}

/// A notification with its mails that is not stored yet, so that it can be stored in the transaction that claims its
/// cause. Afterwards [`MailQueue::stored`](mail::MailQueue::stored) informs the queue about the mails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PreparedNotice {
    notice: AccountNotice,
    mails: Vec<OutgoingMail>,
}

impl PreparedNotice {
    pub(super) fn notice(&self) -> MailedNotice<'_> {
        MailedNotice { notice: &self.notice, mails: &self.mails }
    }
}

/// Prepares a notification for the members of a tenant like [`raise_with`], without storing anything.
///
/// # Errors
/// [`ActionError::Unavailable`], and those of mails that cannot be composed.
pub(super) async fn prepare(
    app: &AppState,
    tenant: TenantId,
    kind: NotificationKind,
    text: &str,
    mail: impl Fn(&User, Address) -> Mail,
) -> Result<PreparedNotice, ActionError> {
    let now = app.now();
    let mails = mails_to_members(app, tenant, kind, mail).await?;
    let mails = app.mails.sealed_all(&mails, now)?;
    let id = NotificationId(fresh_id(now));
    let notice = AccountNotice { id, tenant, user: None, kind, text: text.to_owned(), at: now };
    Ok(PreparedNotice { notice, mails })
}

/// Mails the new notifications about usage, which gateways raise but do not mail. Returns whether there were any.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn mail_new(app: &AppState) -> Result<bool, ActionError> {
    let new = app.usage.unmailed_notifications().await?;
    if new.is_empty() {
        return Ok(false);
    }
    let (ids, now): (Vec<_>, _) = (new.iter().map(|one| one.id).collect(), app.now());
    for one in new {
        if one.at.plus(MAILED_WITHIN) > now {
            let one = UserNotification::from(one);
            let mail =
                |_: &User, to| Mail::notification(to, &one.text, &app.settings.dash_url, one.kind.into());
            let mails = mails_to_members(app, one.tenant, one.kind, mail).await?;
            app.mails.send_once(one.id, &mails, now).await?;
        }
    }
    app.usage.mark_mailed(&ids, now).await?;
    Ok(true)
}

/// Returns the mails about a notification to the members who want mails of its kind.
async fn mails_to_members(
    app: &AppState,
    tenant: TenantId,
    kind: NotificationKind,
    mail: impl Fn(&User, Address) -> Mail,
) -> Result<Vec<Mail>, ActionError> {
    let preferences = format!("{}/", app.settings.dash_url);
    let mut mails = Vec::new();
    for (user, chosen) in app.store.notification_audience(tenant, kind).await? {
        let preference = chosen.unwrap_or_else(|| default_preference(kind, user.role));
        if is_for(kind, user.role) && preference.mail {
            match mail::address(&user.email) {
                Ok(to) => mails.push(mail(&user, to).with_preferences(&preferences)),
                // The other members get their mails nevertheless.
                Err(error) => tracing::warn!(%error, user = %user.id, "a notification cannot be mailed"),
            }
        }
    }
    Ok(mails)
}

//! Notifications as the members of a tenant see them. Each user has read marks of its own.

use super::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{Notification, NotificationId};
use rpcgate_core::clock::Time;

/// A notification with the read mark of the requesting user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserNotification {
    /// The notification.
    pub notification: Notification,
    /// When it was read.
    pub read_at: Option<Time>,
}

/// The notifications of the tenant, the newest first: the last 1,000.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<UserNotification>, ActionError> {
    let all = app.usage.notifications(actor.tenant()?).await?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let read = app.store.read_notifications(actor.user.id).await?;
    let with_mark = |notification: Notification| UserNotification {
        read_at: read.get(&notification.id).copied(),
        notification,
    };
    Ok(all.into_iter().map(with_mark).collect())
}

/// Marks a notification as read by the user. Marking it again keeps the first time.
///
/// # Errors
/// [`ActionError::NotFound`] if the notification is not the tenant's, [`ActionError::Unavailable`].
pub async fn read(
    app: &AppState,
    actor: &Actor,
    id: NotificationId,
) -> Result<UserNotification, ActionError> {
    let found = app.usage.notification(actor.tenant()?, id).await?;
    let notification = found.ok_or(ActionError::NotFound("notification"))?;
    let read_at = app.store.read_notification(actor.user.id, id, app.now()).await?;
    Ok(UserNotification { notification, read_at: Some(read_at) })
}

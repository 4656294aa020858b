//! Notifications, as those who work in a tenant see them. That something has been read is each user's own affair.

use super::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{Notification, NotificationId};
use rpcgate_core::clock::Time;

/// A notification, and when the user who asks has read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What it says.
    pub notification: Notification,
    /// When it was read.
    pub read_at: Option<Time>,
}

/// What the tenant was notified of, the newest first: the last 1,000.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<Seen>, ActionError> {
    let all = app.usage.notifications(actor.tenant()?).await?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let read = app.store.read_notifications(actor.user.id).await?;
    let seen =
        |notification: Notification| Seen { read_at: read.get(&notification.id).copied(), notification };
    Ok(all.into_iter().map(seen).collect())
}

/// Notes that the user has read a notification. Read again, it stays read since the first time.
///
/// # Errors
/// [`ActionError::NotFound`] if it is not one of the tenant's, [`ActionError::Unavailable`].
pub async fn read(app: &AppState, actor: &Actor, id: NotificationId) -> Result<Seen, ActionError> {
    let found = app.usage.notification(actor.tenant()?, id).await?;
    let notification = found.ok_or(ActionError::NotFound("notification"))?;
    let read_at = app.store.read_notification(actor.user.id, id, app.now()).await?;
    Ok(Seen { notification, read_at: Some(read_at) })
}

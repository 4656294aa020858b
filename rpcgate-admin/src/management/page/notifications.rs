//! Unread notifications on the home page.

use super::context::{PageContext, PageResult};
use super::done::Done;
use super::form::FieldList;
use crate::management::action::actor::Actor;
use crate::management::action::notifications::{self, UserNotification};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::NotificationId;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use std::sync::Arc;

/// Notifications that are shown at most.
const MAX_SHOWN: usize = 10;

/// The routes of this page.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/read-notification", post(read))
}

/// The unread notifications, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Unread {
    /// Those that are shown.
    pub(super) newest: Vec<UserNotification>,
    /// The number of older ones.
    pub(super) older: usize,
}

impl Unread {
    /// The unread notifications of a member.
    ///
    /// # Errors
    /// Those of [`notifications::list`].
    pub(super) async fn of(app: &AppState, actor: &Actor) -> Result<Self, ActionError> {
        let all = notifications::list(app, actor).await?;
        let mut newest: Vec<_> = all.into_iter().filter(|one| one.read_at.is_none()).collect();
        let older = newest.len().saturating_sub(MAX_SHOWN);
        newest.truncate(MAX_SHOWN);
        Ok(Unread { newest, older })
    }
}

/// Marks a notification as read.
async fn read(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let id: NotificationId = fields.one("id").parse().map_err(|_| ActionError::NotFound("notification"))?;
    notifications::read(&app, &page.actor, id).await?;
    Ok(page.done("", Done::NotificationRead))
}

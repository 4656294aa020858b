//! Unread notifications on the home page.

use super::form::Form;
use super::session_cookie::Visitor;
use super::view;
use crate::management::action::actor::Actor;
use crate::management::action::notifications;
use crate::management::api::moment::Moment;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::store::NotificationId;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use std::sync::Arc;

/// Notifications that are shown at most.
const MAX_SHOWN: usize = 10;

/// The unread notifications, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Unread {
    /// Those that are shown.
    pub(super) newest: Vec<UnreadNotification>,
    /// The number of older ones.
    pub(super) older: usize,
}

/// A notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UnreadNotification {
    /// Its identifier.
    pub(super) id: NotificationId,
    /// Its text.
    pub(super) text: String,
    /// When it was raised, for programs and for people.
    pub(super) moment: String,
    pub(super) minute: String,
}

impl Unread {
    /// The unread notifications of a member.
    ///
    /// # Errors
    /// Those of [`notifications::list`].
    pub(super) async fn of(app: &AppState, actor: &Actor) -> Result<Self, ActionError> {
        let all = notifications::list(app, actor).await?;
        let unread: Vec<_> = all.into_iter().filter(|notification| notification.read_at.is_none()).collect();
        let newest = unread.iter().take(MAX_SHOWN).map(|notification| {
            let moment = Moment(notification.at).to_string();
            let minute = moment.get(..16).unwrap_or(&moment).replace('T', " ");
            UnreadNotification { id: notification.id, text: notification.text.clone(), moment, minute }
        });
        Ok(Unread { newest: newest.collect(), older: unread.len().saturating_sub(MAX_SHOWN) })
    }
}

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct Read {
    id: String,
}

/// Marks a notification as read.
pub(crate) async fn read(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
    Form(Read { id }): Form<Read>,
) -> Response {
    let actor = Actor::of_page(session.user, &client);
    match mark_read(&app, &actor, &id).await {
        Ok(()) => Redirect::to(view::HOME).into_response(),
        Err(error) => view::refusal(error),
    }
}

async fn mark_read(app: &AppState, actor: &Actor, id: &str) -> Result<(), ActionError> {
    let id: NotificationId = id.parse().map_err(|_| ActionError::NotFound("notification"))?;
    notifications::read(app, actor, id).await.map(drop)
}

//! Notifications that one has not read, on one's own page.

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

/// The most that are shown at once.
const SHOWN: usize = 10;

/// What has not been read, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Unread {
    /// As many as are shown.
    pub(super) newest: Vec<News>,
    /// How many older ones there are.
    pub(super) older: usize,
}

/// A notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct News {
    /// Its identifier.
    pub(super) id: NotificationId,
    /// What it says.
    pub(super) text: String,
    /// When it was raised, for programs and for people.
    pub(super) moment: String,
    pub(super) minute: String,
}

impl Unread {
    /// What a member of a tenant has not read.
    ///
    /// # Errors
    /// As [`notifications::list`].
    pub(super) async fn of(app: &AppState, actor: &Actor) -> Result<Self, ActionError> {
        let all = notifications::list(app, actor).await?;
        let unread: Vec<_> = all.into_iter().filter(|seen| seen.read_at.is_none()).collect();
        let newest = unread.iter().take(SHOWN).map(|seen| {
            let moment = Moment(seen.notification.at).to_string();
            let minute = moment.get(..16).unwrap_or(&moment).replace('T', " ");
            News { id: seen.notification.id, text: seen.notification.text(), moment, minute }
        });
        Ok(Unread { newest: newest.collect(), older: unread.len().saturating_sub(SHOWN) })
    }
}

/// Which one was read.
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
    let actor = Actor { user: session.user, address: client.address };
    match marked(&app, &actor, &id).await {
        Ok(()) => Redirect::to(view::HOME).into_response(),
        Err(error) => view::refusal(error),
    }
}

async fn marked(app: &AppState, actor: &Actor, id: &str) -> Result<(), ActionError> {
    let id: NotificationId = id.parse().map_err(|_| ActionError::NotFound("notification"))?;
    notifications::read(app, actor, id).await.map(drop)
}

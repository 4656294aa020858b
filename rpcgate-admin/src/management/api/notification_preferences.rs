//! Routes of notification preferences.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Body;
use crate::management::shape::notification_preferences::{
    NotificationPreferenceJson, UpdateNotificationPreference,
};
use axum::Json;
use axum::extract::State;
use rpcgate_store::{NotificationKind, NotificationPreference};
use std::sync::Arc;

impl From<(NotificationKind, NotificationPreference)> for NotificationPreferenceJson {
    fn from(
        (kind, NotificationPreference { shown, mail }): (NotificationKind, NotificationPreference),
    ) -> Self {
        NotificationPreferenceJson { kind, shown, mail }
    }
}

/// List the caller's preferences for notifications
///
/// One for each kind that the caller's role can receive.
#[utoipa::path(get, path = "/notifications/preferences", operation_id = "list_notification_preferences",
    tag = "notifications",
    responses((status = 200, description = "How the caller is told of each kind.", body = [NotificationPreferenceJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    actor: Actor,
) -> Result<Json<Vec<NotificationPreferenceJson>>, ActionError> {
    let all = action::notification_preferences::list(&app, &actor).await?;
    Ok(Json(all.into_iter().map(NotificationPreferenceJson::from).collect()))
}

/// Change a preference for notifications
///
/// Applies to the calling user and one kind.
#[utoipa::path(put, path = "/notifications/preferences", operation_id = "update_notification_preference",
    tag = "notifications", request_body = UpdateNotificationPreference,
    responses((status = 200, description = "The preference now.", body = NotificationPreferenceJson)))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Body(UpdateNotificationPreference { kind, shown, mail }): Body<UpdateNotificationPreference>,
) -> Result<Json<NotificationPreferenceJson>, ActionError> {
    let preference = action::notification_preferences::update(&app, &actor, kind, shown, mail).await?;
    Ok(Json((kind, preference).into()))
}

#[cfg(test)]
mod tests;

//! Routes of notification preferences.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Body;
use rpcgate_management::shape::notification_preferences::{
    NotificationPreferenceJson, UpdateNotificationPreference,
};
use std::sync::Arc;

/// List the caller's preferences for notifications
///
/// One for each kind that the caller's role can receive.
#[utoipa::path(get, path = "/notifications/preferences", operation_id = "list_notification_preferences",
    tag = "notifications",
    responses((status = 200, description = "The preference for each kind.", body = [NotificationPreferenceJson])))]
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

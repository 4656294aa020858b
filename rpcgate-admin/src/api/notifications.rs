//! Routes of notifications.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::notifications::NotificationJson;
use rpcgate_store::NotificationId;
use std::sync::Arc;

/// List notifications
///
/// Newest first, at most 1,000. A tenant is notified once per UTC day when it has used 80, 95 and 100 percent of the
/// requests that its plan allows all its keys on that day. It is notified at most once an hour when 50 calls are
/// refused with 429 within a minute. Notifications about invoices are for roles that may read bills, and those about
/// the security of an account only for its user. Kinds that the caller has switched off are left out.
#[utoipa::path(get, path = "/notifications", operation_id = "list_notifications", tag = "notifications",
    params(Page),
    responses((status = 200, description = "The notifications.", body = [NotificationJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
) -> Result<ListPage<NotificationJson>, ActionError> {
    let all = action::notifications::list(&app, &actor).await?;
    page.of(all.into_iter().map(NotificationJson::from).collect(), true, |one| &one.id)
}

/// Mark a notification as read
///
/// Applies to the calling user; it stays unread for others. Repeating it has no effect.
#[utoipa::path(post, path = "/notifications/{id}/read", operation_id = "read_notification", tag = "notifications",
    responses((status = 200, description = "The notification.", body = NotificationJson)))]
pub async fn read(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<NotificationId>,
) -> Result<Json<NotificationJson>, ActionError> {
    Ok(Json(action::notifications::read(&app, &actor, id).await?.into()))
}

#[cfg(test)]
pub(crate) mod tests;

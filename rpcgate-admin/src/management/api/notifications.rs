//! Notifications.

use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::notifications::UserNotification;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use axum::Json;
use axum::extract::State;
use rpcgate_store::{NotificationId, NotificationKind};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A notification.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Notification)]
pub struct NotificationJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The tenant.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// Its kind.
    pub kind: NotificationKind,
    /// Its text, for people.
    pub message: String,
    /// The beginning of the UTC day or minute that it is about, or when it was raised.
    #[schema(value_type = String, format = DateTime)]
    pub since: Moment,
    /// Requests of that day, or calls refused in that minute, when it was raised; null if it is not about usage.
    pub requests: Option<u64>,
    /// Requests that the plan allows all keys of the tenant in that day, or null.
    pub requests_limit: Option<u64>,
    /// When it was raised.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When the calling user has read it, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub read_at: Option<Moment>,
}

impl From<UserNotification> for NotificationJson {
    fn from(one: UserNotification) -> Self {
        NotificationJson {
            id: one.id.to_string(),
            tenant_id: one.tenant.to_string(),
            kind: one.kind,
            message: one.text,
            since: one.since.into(),
            requests: one.counted,
            requests_limit: one.allowed,
            created_at: one.at.into(),
            read_at: one.read_at.map(Moment),
        }
    }
}

/// List notifications
///
/// The newest first, at most 1,000. A tenant is notified once per UTC day when 80, 95 and 100 percent of the requests
/// are used that its plan allows all its keys in the day, and at most once an hour of 50 calls refused with 429
/// within a minute. Invoices are for roles that may read bills, and events that concern the safety of an account for its
/// user alone. Kinds that the caller has switched off are left out.
#[utoipa::path(get, path = "/notifications", operation_id = "list_notifications", tag = "notifications",
    params(Page),
    responses((status = 200, description = "What the tenant was notified of.", body = [NotificationJson])))]
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
/// For the calling user; it stays unread for others. Repeating it has no effect.
#[utoipa::path(post, path = "/notifications/{id}/read", operation_id = "read_notification", tag = "notifications",
    params(("id" = String, Path, format = "uuid", description = "The notification.")),
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

//! JSON shape of notifications.

use crate::action::notifications::UserNotification;
use crate::shape::moment::Moment;
use rpcgate_store::NotificationKind;
use serde::Serialize;
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
    /// The message.
    pub message: String,
    /// The start of the UTC day or minute that it is about, or the time at which it was raised.
    #[schema(value_type = String, format = DateTime)]
    pub since: Moment,
    /// The requests of that day, or the calls refused in that minute, when it was raised; null if it is not about
    /// usage.
    pub requests: Option<u64>,
    /// The requests that the plan allows all keys of the tenant on that day, or null.
    pub requests_limit: Option<u64>,
    /// The time at which it was raised.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The time at which the calling user read it, or null.
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

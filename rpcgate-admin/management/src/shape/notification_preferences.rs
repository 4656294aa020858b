//! JSON shapes of notification preferences.

use rpcgate_store::NotificationKind;
use rpcgate_store::NotificationPreference;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The delivery of one kind of notification to the caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = NotificationPreference)]
pub struct NotificationPreferenceJson {
    /// The kind.
    pub kind: NotificationKind,
    /// True if notifications of the kind are listed.
    pub shown: bool,
    /// True if notifications of the kind are mailed.
    pub mail: bool,
}

/// A change to a preference. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateNotificationPreference {
    /// The kind.
    pub kind: NotificationKind,
    /// True to list notifications of the kind.
    pub shown: Option<bool>,
    /// True to mail notifications of the kind. Mails of the kind `account.security` cannot be switched off.
    pub mail: Option<bool>,
}

impl From<(NotificationKind, NotificationPreference)> for NotificationPreferenceJson {
    fn from(
        (kind, NotificationPreference { shown, mail }): (NotificationKind, NotificationPreference),
    ) -> Self {
        NotificationPreferenceJson { kind, shown, mail }
    }
}

//! What users want to be told of.

use rpcgate_store::NotificationKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the caller is told of notifications of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = NotificationPreference)]
pub struct NotificationPreferenceJson {
    /// The kind.
    pub kind: NotificationKind,
    /// Whether they are listed.
    pub shown: bool,
    /// Whether they are mailed.
    pub mail: bool,
}

/// A change of a preference; what is left out stays.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateNotificationPreference {
    /// The kind.
    pub kind: NotificationKind,
    /// Whether they are listed.
    pub shown: Option<bool>,
    /// Whether they are mailed. Mails of the kind `account.security` cannot be switched off.
    pub mail: Option<bool>,
}

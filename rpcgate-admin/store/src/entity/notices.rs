//! Notifications that the management side raises.

use crate::query::named::named_values;
use crate::query::{NotificationId, UserId};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Notice;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// The subject of a notification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NotificationKind {
    /// 80 percent of the day's requests are made.
    #[serde(rename = "usage.daily_requests_80")]
    DailyRequests80,
    /// 95 percent of them.
    #[serde(rename = "usage.daily_requests_95")]
    DailyRequests95,
    /// All of them.
    #[serde(rename = "usage.daily_requests_100")]
    DailyRequests100,
    /// Many calls were refused with 429 within a minute.
    #[serde(rename = "usage.rate_limited_spike")]
    RateLimitedSpike,
    /// An invoice was issued, is due soon, is overdue or was paid.
    #[serde(rename = "billing.invoice")]
    Invoice,
    /// The tenant was suspended, or is active again.
    #[serde(rename = "account.suspension")]
    Suspension,
    /// Something happened that concerns the safety of the user's account.
    #[serde(rename = "account.security")]
    Security,
    /// A webhook's deliveries fail, or succeed again.
    #[serde(rename = "webhook.health")]
    WebhookHealth,
    /// Calls cost more.
    #[serde(rename = "billing.prices")]
    Prices,
    /// An operator has decided a request for another plan.
    #[serde(rename = "limit_request.decided")]
    LimitDecision,
}

impl NotificationKind {
    /// All of them.
    pub const ALL: [NotificationKind; 10] = [
        NotificationKind::DailyRequests80,
        NotificationKind::DailyRequests95,
        NotificationKind::DailyRequests100,
        NotificationKind::RateLimitedSpike,
        NotificationKind::Invoice,
        NotificationKind::Suspension,
        NotificationKind::Security,
        NotificationKind::WebhookHealth,
        NotificationKind::Prices,
        NotificationKind::LimitDecision,
    ];

    /// Returns its name in the API and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            NotificationKind::DailyRequests80 => Notice::DailyRequests80.name(),
            NotificationKind::DailyRequests95 => Notice::DailyRequests95.name(),
            NotificationKind::DailyRequests100 => Notice::DailyRequests100.name(),
            NotificationKind::RateLimitedSpike => Notice::RateLimitedSpike.name(),
            NotificationKind::Invoice => "billing.invoice",
            NotificationKind::Suspension => "account.suspension",
            NotificationKind::Security => "account.security",
            NotificationKind::WebhookHealth => "webhook.health",
            NotificationKind::Prices => "billing.prices",
            NotificationKind::LimitDecision => "limit_request.decided",
        }
    }
}

impl From<Notice> for NotificationKind {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::DailyRequests80 => NotificationKind::DailyRequests80,
            Notice::DailyRequests95 => NotificationKind::DailyRequests95,
            Notice::DailyRequests100 => NotificationKind::DailyRequests100,
            Notice::RateLimitedSpike => NotificationKind::RateLimitedSpike,
        }
    }
}

named_values!(NotificationKind, "kind of notification");

/// A notification that the management side raises.
#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "notices")]
pub struct Model {
    /// Its identifier.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: NotificationId,
    /// The tenant.
    #[sea_orm(column_name = "tenant_id", enum_name = "TenantId")]
    pub tenant: TenantId,
    /// The user concerned; `None` for all members of the tenant.
    #[sea_orm(column_name = "user_id", enum_name = "UserId")]
    pub user: Option<UserId>,
    /// Its kind.
    pub kind: NotificationKind,
    /// The display text.
    #[sea_orm(column_type = "Text")]
    pub text: String,
    /// The time when it was raised.
    pub at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

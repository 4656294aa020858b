//! JSON shape of a change to a plan.

use crate::management::action;
use crate::management::error::ActionError;
use crate::management::shape::moment::Moment;
use rpcgate_config::{CountsChange, PlanChange, QuotaChange};
use rpcgate_core::plan;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A change to a plan. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PlanChange)]
pub struct PlanChangeJson {
    /// Requests a key may make per UTC minute.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u64>,
    /// Requests a key may make per UTC hour.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<u64>,
    /// Requests a key may make per UTC day.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_day: Option<u64>,
    /// Heavy calls a project may make per UTC minute, at each gateway.
    #[schema(maximum = 1_000_000_000_000_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heavy_per_minute: Option<u64>,
    /// Price of a Compute Unit in US dollars.
    #[schema(minimum = 0, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_cu: Option<f64>,
    /// WebSocket streams a project may have open at each gateway. Open ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ws_connections: Option<u32>,
    /// WebSocket streams a key may have open at each gateway. The default and the maximum are the project's
    /// limit. Open ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ws_connections_per_key: Option<u32>,
    /// The maximum number of projects of a tenant. Existing ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projects: Option<u32>,
    /// The maximum number of usable keys of a project. Existing ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_per_project: Option<u32>,
    /// The maximum number of members of a tenant. Existing ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    /// The maximum number of webhooks of a project. Existing ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks_per_project: Option<u32>,
    /// The maximum number of subscriptions of a webhook. Existing ones beyond the limit stay.
    #[schema(maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions_per_webhook: Option<u32>,
    /// Compute Units that a project may use in any rolling 24 hours, unless it has a quota of its own; 0 refuses every
    /// call that costs units. This field and those below apply only to the four built-in plans.
    #[schema(maximum = 9_223_372_036_854_775_807_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_per_day: Option<u64>,
    /// Compute Units of a project in a month. Recorded, not enforced.
    #[schema(maximum = 9_223_372_036_854_775_807_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of a project that has no quota of its own.
    #[schema(maximum = 9_223_372_036_854_775_807_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps_limit: Option<u64>,
    /// The fee per month, in cents.
    #[schema(maximum = 100_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly_fee_cents: Option<u64>,
    /// The time at which the change takes effect, at most 366 days ahead; now by default. A time in the past is
    /// refused. Only for a built-in plan.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Moment>,
}

impl PlanChangeJson {
    /// Reports whether all fields are left out.
    pub fn is_empty(&self) -> bool {
        *self == PlanChangeJson::default()
    }

    /// Returns the change.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for an invalid price.
    pub fn change(self) -> Result<PlanChange, ActionError> {
        let price = self.price_per_cu.map(action::operator::plans::price).transpose()?;
        let counts = CountsChange {
            projects: self.projects,
            keys_per_project: self.keys_per_project,
            members: self.members,
            webhooks_per_project: self.webhooks_per_project,
            subscriptions_per_webhook: self.subscriptions_per_webhook,
        };
        let PlanChangeJson { per_minute, per_hour, per_day, heavy_per_minute, .. } = self;
        let PlanChangeJson { ws_connections, ws_connections_per_key, .. } = self;
        let PlanChangeJson { cu_per_day, cu_per_month, rps_limit, monthly_fee_cents, .. } = self;
        Ok(PlanChange {
            per_minute,
            per_hour,
            per_day,
            heavy_per_minute,
            price,
            ws_connections,
            ws_connections_per_key,
            counts,
            quota: QuotaChange { cu_per_day, cu_per_month, rps_limit },
            monthly_fee: monthly_fee_cents,
        })
    }
}

impl From<PlanChange> for PlanChangeJson {
    fn from(change: PlanChange) -> Self {
        let CountsChange {
            projects,
            keys_per_project,
            members,
            webhooks_per_project,
            subscriptions_per_webhook,
        } = change.counts;
        PlanChangeJson {
            per_minute: change.per_minute,
            per_hour: change.per_hour,
            per_day: change.per_day,
            heavy_per_minute: change.heavy_per_minute,
            price_per_cu: change.price.map(plan::Price::usd),
            ws_connections: change.ws_connections,
            ws_connections_per_key: change.ws_connections_per_key,
            projects,
            keys_per_project,
            members,
            webhooks_per_project,
            subscriptions_per_webhook,
            cu_per_day: change.quota.cu_per_day,
            cu_per_month: change.quota.cu_per_month,
            rps_limit: change.quota.rps_limit,
            monthly_fee_cents: change.monthly_fee,
            from: None,
        }
    }
}

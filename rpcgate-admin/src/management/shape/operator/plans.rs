//! JSON shapes of the built-in plans.

use crate::management::action::operator::plans::PricedPlan;
use crate::management::shape::moment::Moment;
use crate::management::shape::plan_change::PlanChangeJson;
use rpcgate_store::ScheduledPlanChange;
use serde::Serialize;
use utoipa::ToSchema;

/// All limits, prices and the quota of a built-in plan.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct PlanFigures {
    /// Its name: free, standard, premium or enterprise.
    #[schema(example = "standard")]
    pub tier: &'static str,
    /// Requests a key may make per UTC minute.
    pub per_minute: u64,
    /// Requests a key may make per UTC hour.
    pub per_hour: u64,
    /// Requests a key may make per UTC day.
    pub per_day: u64,
    /// Heavy calls a project may make per UTC minute, at each gateway.
    pub heavy_per_minute: u64,
    /// Price of a Compute Unit in US dollars.
    #[schema(example = 0.001)]
    pub price_per_cu: f64,
    /// WebSocket streams a project may have open at each gateway.
    pub ws_connections: u32,
    /// WebSocket streams a key may have open at each gateway.
    pub ws_connections_per_key: u32,
    /// The maximum number of projects of a tenant.
    pub projects: u32,
    /// The maximum number of usable keys of a project.
    pub keys_per_project: u32,
    /// The maximum number of members of a tenant.
    pub members: u32,
    /// The maximum number of webhooks of a project.
    pub webhooks_per_project: u32,
    /// The maximum number of subscriptions of a webhook.
    pub subscriptions_per_webhook: u32,
    /// Compute Units that a project may use in any rolling 24 hours, unless it has a quota of its own.
    pub cu_per_day: u64,
    /// Compute Units of a project in a month, or null. Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of a project that has no quota of its own, or null.
    pub rps_limit: Option<u64>,
    /// The fee per month, in cents.
    pub monthly_fee_cents: u64,
    /// The changes that take effect later, in order.
    pub scheduled: Vec<ScheduledChangeJson>,
}

/// A change of a plan that takes effect later.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = ScheduledChange)]
pub struct ScheduledChangeJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The time at which it takes effect.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// The values that change.
    pub figures: PlanChangeJson,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<ScheduledPlanChange> for ScheduledChangeJson {
    fn from(ScheduledPlanChange { id, change, created_at }: ScheduledPlanChange) -> Self {
        ScheduledChangeJson {
            id: id.to_string(),
            from: change.from.into(),
            figures: change.figures.into(),
            created_at: created_at.into(),
        }
    }
}

impl From<PricedPlan> for PlanFigures {
    fn from(PricedPlan { plan, monthly_fee, scheduled }: PricedPlan) -> Self {
        PlanFigures {
            tier: plan.tier.name(),
            per_minute: plan.per_minute,
            per_hour: plan.per_hour,
            per_day: plan.per_day,
            heavy_per_minute: plan.heavy_per_minute,
            price_per_cu: plan.price.usd(),
            ws_connections: plan.ws_connections,
            ws_connections_per_key: plan.ws_connections_per_key,
            projects: plan.counts.projects,
            keys_per_project: plan.counts.keys_per_project,
            members: plan.counts.members,
            webhooks_per_project: plan.counts.webhooks_per_project,
            subscriptions_per_webhook: plan.counts.subscriptions_per_webhook,
            cu_per_day: plan.quota.cu_per_day,
            cu_per_month: plan.quota.cu_per_month,
            rps_limit: plan.quota.rps_limit,
            monthly_fee_cents: monthly_fee,
            scheduled: scheduled.into_iter().map(ScheduledChangeJson::from).collect(),
        }
    }
}

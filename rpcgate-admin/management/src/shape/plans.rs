//! JSON shape of plans.

use crate::action::plans::ListedPlan;
use serde::Serialize;
use utoipa::ToSchema;

/// The limits of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Plan)]
pub struct PlanJson {
    /// Its name: free, standard, premium, enterprise, or the name of a custom plan.
    #[schema(example = "standard")]
    pub name: String,
    /// The built-in plan, or the base of a custom plan.
    #[schema(example = "standard")]
    pub tier: &'static str,
    /// Requests a key may make per UTC minute.
    pub per_minute: u64,
    /// Requests a key may make per UTC hour.
    pub per_hour: u64,
    /// Requests a key may make per UTC day.
    pub per_day: u64,
    /// Price of a Compute Unit in US dollars.
    #[schema(example = 0.001)]
    pub price_per_cu: f64,
    /// Compute Units that a project may use in any rolling 24 hours, unless it has a quota of its own.
    pub cu_per_day: u64,
    /// Compute Units of a project in a month, or null. Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of a project that has no quota of its own, or null.
    pub rps_limit: Option<u64>,
    /// The fee per month, in cents.
    pub monthly_fee_cents: u64,
}

impl From<ListedPlan> for PlanJson {
    fn from(ListedPlan { name, plan, monthly_fee, .. }: ListedPlan) -> Self {
        PlanJson {
            name,
            tier: plan.tier.name(),
            per_minute: plan.per_minute,
            per_hour: plan.per_hour,
            per_day: plan.per_day,
            price_per_cu: plan.price.usd(),
            cu_per_day: plan.quota.cu_per_day,
            cu_per_month: plan.quota.cu_per_month,
            rps_limit: plan.quota.rps_limit,
            monthly_fee_cents: monthly_fee,
        }
    }
}

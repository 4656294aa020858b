//! Figures in place of others, of contracts and of plans of an operator's own.

use super::plan_change::PlanChangeJson;
use crate::management::error::ActionError;
use crate::management::strict_json::object;
use crate::store::{DefaultQuota, Figures};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The quota of the projects for which an operator has not set one. A field that is left out is as without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefaultQuota)]
pub struct DefaultQuotaJson {
    /// Compute Units in any rolling 24 hours; 0 refuses every call that costs units.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_per_day: Option<u64>,
    /// Recorded, not enforced.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps_limit: Option<u64>,
}

/// Figures in place of others. What is left out stays as it is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Figures)]
pub struct FiguresJson {
    /// The limits of the plan and its price.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "PlanChangeJson::is_empty")]
    pub limits: PlanChangeJson,
    /// The quota of the projects for which an operator has not set one.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "is_default")]
    pub default_quota: DefaultQuotaJson,
    /// The fee for a month, in cents.
    #[schema(maximum = 100_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly_fee_cents: Option<u64>,
}

fn is_default(quota: &DefaultQuotaJson) -> bool {
    *quota == DefaultQuotaJson::default()
}

impl FiguresJson {
    /// The figures that it gives.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for an invalid price.
    pub fn figures(self) -> Result<Figures, ActionError> {
        let DefaultQuotaJson { cu_per_day, cu_per_month, rps_limit } = self.default_quota;
        let quota = DefaultQuota { cu_per_day, cu_per_month, rps_limit };
        Ok(Figures { plan: self.limits.change()?, quota, monthly_fee: self.monthly_fee_cents })
    }
}

impl From<Figures> for FiguresJson {
    fn from(figures: Figures) -> Self {
        let DefaultQuota { cu_per_day, cu_per_month, rps_limit } = figures.quota;
        FiguresJson {
            limits: figures.plan.into(),
            default_quota: DefaultQuotaJson { cu_per_day, cu_per_month, rps_limit },
            monthly_fee_cents: figures.monthly_fee,
        }
    }
}

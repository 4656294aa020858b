//! JSON shapes of the overrides in contracts and custom plans.

use crate::error::ActionError;
use crate::shape::plan_change::PlanChangeJson;
use crate::strict_json::object;
use rpcgate_config::{PlanChange, QuotaChange};
use rpcgate_store::Figures;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The default quota of projects without a quota of their own. A field that is left out overrides nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefaultQuota)]
pub struct DefaultQuotaJson {
    /// Compute Units in any rolling 24 hours; 0 refuses every call that costs units.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_per_day: Option<u64>,
    /// Compute Units in a month. Recorded, not enforced.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps_limit: Option<u64>,
}

/// Values that override those of a plan. A field that is left out overrides nothing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Figures)]
pub struct FiguresJson {
    /// The limits and the price, without the quota and the fee.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "PlanChangeJson::is_empty")]
    pub limits: PlanChangeJson,
    /// The default quota of projects without a quota of their own.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "is_default")]
    pub default_quota: DefaultQuotaJson,
    /// The fee per month, in cents.
    #[schema(maximum = 100_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly_fee_cents: Option<u64>,
}

impl FiguresJson {
    /// Returns the overrides.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for an invalid price, and for a time, a quota or a fee in `limits`.
    pub fn figures(self) -> Result<Figures, ActionError> {
        if self.limits.from.is_some() {
            return Err(ActionError::named("limits", "cannot have a time `from`"));
        }
        let limits = self.limits.change()?;
        if (limits.quota, limits.monthly_fee) != (QuotaChange::default(), None) {
            return Err(ActionError::named(
                "limits",
                "cannot have a quota or a fee: they are in `default_quota` and `monthly_fee_cents` next to it",
            ));
        }
        let DefaultQuotaJson { cu_per_day, cu_per_month, rps_limit } = self.default_quota;
        let quota = QuotaChange { cu_per_day, cu_per_month, rps_limit };
        Ok(PlanChange { quota, monthly_fee: self.monthly_fee_cents, ..limits }.into())
    }
}

impl From<Figures> for FiguresJson {
    fn from(Figures { plan }: Figures) -> Self {
        let QuotaChange { cu_per_day, cu_per_month, rps_limit } = plan.quota;
        let limits = PlanChange { quota: QuotaChange::default(), monthly_fee: None, ..plan };
        FiguresJson {
            limits: limits.into(),
            default_quota: DefaultQuotaJson { cu_per_day, cu_per_month, rps_limit },
            monthly_fee_cents: plan.monthly_fee,
        }
    }
}

fn is_default(quota: &DefaultQuotaJson) -> bool {
    *quota == DefaultQuotaJson::default()
}

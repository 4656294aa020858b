//! JSON shapes of the quotas of projects.

use rpcgate_config::QuotaChange;
use rpcgate_core::caller::{self, ProjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The quota of a project.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = ProjectQuota)]
pub struct QuotaJson {
    /// The project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// Compute Units in any rolling 24 hours; 0 refuses every call that costs units.
    pub cu_per_day: u64,
    /// Compute Units in a month, or null. Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project, or null.
    pub rps_limit: Option<u64>,
    /// True if an operator has set it.
    pub has_quota_row: bool,
}

impl QuotaJson {
    /// Returns the quota of `project`.
    pub fn of(project: ProjectId, quota: &caller::ProjectQuota) -> Self {
        let caller::ProjectQuota { cu_per_day, cu_per_month, rps_limit, has_row } = *quota;
        let project_id = project.to_string();
        QuotaJson { project_id, cu_per_day, cu_per_month, rps_limit, has_quota_row: has_row }
    }
}

/// A project's new quota.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewQuota {
    /// Compute Units in any rolling 24 hours; by default the current value of the tenant's plan.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    pub cu_per_day: Option<u64>,
    /// Compute Units in a month; by default the value of the plan. Recorded, not enforced.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project; by default the value of the plan.
    #[schema(maximum = 18_446_744_073_709_551_615_u64)]
    pub rps_limit: Option<u64>,
}

impl From<NewQuota> for QuotaChange {
    fn from(NewQuota { cu_per_day, cu_per_month, rps_limit }: NewQuota) -> Self {
        QuotaChange { cu_per_day, cu_per_month, rps_limit }
    }
}

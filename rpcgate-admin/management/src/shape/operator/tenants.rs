//! JSON shape of an operator's change to a tenant.

use crate::shape::tenants::{TenantStatus, TierJson};
use serde::Deserialize;
use utoipa::ToSchema;

/// A change to a tenant. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TenantChange)]
pub struct TenantChangeJson {
    /// The new status.
    pub status: Option<TenantStatus>,
    /// The built-in plan to move to, also from a custom plan.
    pub tier: Option<TierJson>,
    /// The identifier of a custom plan to move to. Not together with `tier`.
    #[schema(format = "uuid")]
    pub custom_plan_id: Option<String>,
}

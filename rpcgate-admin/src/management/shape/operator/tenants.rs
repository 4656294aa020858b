//! All tenants.

use crate::management::shape::tenants::{TenantStatus, TierJson};
use serde::Deserialize;
use utoipa::ToSchema;

/// A change to a tenant. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TenantChange)]
pub struct TenantChangeJson {
    /// Whether its calls are served.
    pub status: Option<TenantStatus>,
    /// One of the four plans, in place of a plan of the operator's own.
    pub tier: Option<TierJson>,
    /// A plan of the operator's own: its identifier. Not together with `tier`.
    #[schema(format = "uuid")]
    pub custom_plan_id: Option<String>,
}

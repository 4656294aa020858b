//! JSON shapes of operators' decisions about requests for another plan.

use serde::Deserialize;
use utoipa::ToSchema;

/// The decision about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Verdict)]
pub enum VerdictJson {
    /// The tenant gets the plan.
    Approved,
    /// The tenant does not get the plan.
    Rejected,
}

/// An operator's decision.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Approved or rejected.
    pub status: VerdictJson,
    /// A note for the tenant, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub note: Option<String>,
}

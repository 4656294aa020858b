//! JSON shapes of requests for another plan.

use crate::action::plans::PlanNames;
use crate::shape::moment::Moment;
use crate::shape::tenants::TierJson;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The status of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RequestStatus)]
pub enum RequestStatusJson {
    /// Not decided yet.
    Pending,
    /// Approved: the tenant has the plan.
    Approved,
    /// Rejected.
    Rejected,
}

impl From<rpcgate_store::RequestStatus> for RequestStatusJson {
    fn from(status: rpcgate_store::RequestStatus) -> Self {
        match status {
            rpcgate_store::RequestStatus::Pending => RequestStatusJson::Pending,
            rpcgate_store::RequestStatus::Approved => RequestStatusJson::Approved,
            rpcgate_store::RequestStatus::Rejected => RequestStatusJson::Rejected,
        }
    }
}

impl From<RequestStatusJson> for rpcgate_store::RequestStatus {
    fn from(status: RequestStatusJson) -> Self {
        match status {
            RequestStatusJson::Pending => rpcgate_store::RequestStatus::Pending,
            RequestStatusJson::Approved => rpcgate_store::RequestStatus::Approved,
            RequestStatusJson::Rejected => rpcgate_store::RequestStatus::Rejected,
        }
    }
}

/// A request for another plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = LimitRequest)]
pub struct LimitRequestJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The tenant that made the request.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The user who made the request.
    #[schema(format = "uuid")]
    pub user_id: String,
    /// The name of the requested plan.
    #[schema(example = "premium")]
    pub requested_plan: String,
    /// The built-in plan, or the base of a custom plan.
    pub requested_tier: TierJson,
    /// The reason for the request.
    pub reason: String,
    /// Its status.
    pub status: RequestStatusJson,
    /// A note of the operator who decided, or null.
    pub note: Option<String>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The time of the decision, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reviewed_at: Option<Moment>,
}

impl LimitRequestJson {
    /// Returns a request, with the name of its plan from `names`.
    pub fn of(request: rpcgate_store::LimitRequest, names: &PlanNames) -> Self {
        LimitRequestJson {
            id: request.id.to_string(),
            tenant_id: request.tenant.to_string(),
            user_id: request.user.to_string(),
            requested_plan: names.of(request.plan()).to_owned(),
            requested_tier: request.requested_tier.into(),
            reason: request.reason,
            status: request.status.into(),
            note: request.note,
            created_at: request.created_at.into(),
            reviewed_at: request.reviewed_at.map(Moment),
        }
    }
}

/// A new request.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLimitRequest {
    /// The requested built-in plan. Exactly one of this field and `requested_plan` is needed.
    pub requested_tier: Option<TierJson>,
    /// The requested plan: a name from `GET /plans`, or the identifier of a custom plan.
    #[schema(max_length = 40)]
    pub requested_plan: Option<String>,
    /// The reason, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
}

//! Requests for another plan. An index allows each tenant one pending request.

use crate::query::named::named_values;
use crate::query::{LimitRequestId, UserId};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

/// The status of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestStatus {
    /// Waits for a decision.
    Pending,
    /// Approved: the tenant has got the plan.
    Approved,
    /// Rejected.
    Rejected,
}

impl RequestStatus {
    /// All statuses.
    pub const ALL: [RequestStatus; 3] =
        [RequestStatus::Pending, RequestStatus::Approved, RequestStatus::Rejected];

    /// Returns its name in the database and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            RequestStatus::Pending => "pending",
            RequestStatus::Approved => "approved",
            RequestStatus::Rejected => "rejected",
        }
    }
}

named_values!(RequestStatus, "status");

/// A request for another plan.
#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "limit_requests")]
pub struct Model {
    /// Its identifier.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: LimitRequestId,
    /// The requesting tenant.
    #[sea_orm(column_name = "tenant_id", enum_name = "TenantId")]
    pub tenant: TenantId,
    /// The requesting user.
    #[sea_orm(column_name = "user_id", enum_name = "UserId")]
    pub user: UserId,
    /// The requested plan, or its base.
    pub requested_tier: Tier,
    /// The user's reason.
    pub reason: String,
    /// Its status.
    pub status: RequestStatus,
    /// A note of the deciding operator.
    pub note: Option<String>,
    /// The creation time.
    pub created_at: Time,
    /// The time of the decision.
    pub reviewed_at: Option<Time>,
    /// The deciding operator.
    #[sea_orm(column_name = "reviewer_id", enum_name = "ReviewerId")]
    pub reviewer: Option<UserId>,
    /// The requested plan, if it is a custom plan.
    #[sea_orm(column_name = "custom_plan_id", enum_name = "CustomPlanId")]
    pub custom_plan: Option<CustomPlanId>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! JSON shapes of support tickets.

use crate::shape::moment::Moment;
use crate::shape::tenants::TierJson;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The category of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TicketCategory)]
pub enum TicketCategoryJson {
    /// A question about the service.
    Question,
    /// Something that does not work.
    Problem,
    /// Bills and payments.
    Billing,
    /// The account, its members and their log-ins.
    Account,
    /// A request for another plan, to which the ticket is linked.
    LimitIncrease,
    /// Anything else.
    Other,
}

impl From<rpcgate_store::TicketCategory> for TicketCategoryJson {
    fn from(category: rpcgate_store::TicketCategory) -> Self {
        match category {
            rpcgate_store::TicketCategory::Question => TicketCategoryJson::Question,
            rpcgate_store::TicketCategory::Problem => TicketCategoryJson::Problem,
            rpcgate_store::TicketCategory::Billing => TicketCategoryJson::Billing,
            rpcgate_store::TicketCategory::Account => TicketCategoryJson::Account,
            rpcgate_store::TicketCategory::LimitIncrease => TicketCategoryJson::LimitIncrease,
            rpcgate_store::TicketCategory::Other => TicketCategoryJson::Other,
        }
    }
}

impl From<TicketCategoryJson> for rpcgate_store::TicketCategory {
    fn from(category: TicketCategoryJson) -> Self {
        match category {
            TicketCategoryJson::Question => rpcgate_store::TicketCategory::Question,
            TicketCategoryJson::Problem => rpcgate_store::TicketCategory::Problem,
            TicketCategoryJson::Billing => rpcgate_store::TicketCategory::Billing,
            TicketCategoryJson::Account => rpcgate_store::TicketCategory::Account,
            TicketCategoryJson::LimitIncrease => rpcgate_store::TicketCategory::LimitIncrease,
            TicketCategoryJson::Other => rpcgate_store::TicketCategory::Other,
        }
    }
}

/// The status of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TicketStatus)]
pub enum TicketStatusJson {
    /// It waits for the operators of the service.
    Open,
    /// It is answered and waits for the tenant.
    Answered,
    /// It is closed.
    Closed,
}

impl From<rpcgate_store::TicketStatus> for TicketStatusJson {
    fn from(status: rpcgate_store::TicketStatus) -> Self {
        match status {
            rpcgate_store::TicketStatus::Open => TicketStatusJson::Open,
            rpcgate_store::TicketStatus::Answered => TicketStatusJson::Answered,
            rpcgate_store::TicketStatus::Closed => TicketStatusJson::Closed,
        }
    }
}

impl From<TicketStatusJson> for rpcgate_store::TicketStatus {
    fn from(status: TicketStatusJson) -> Self {
        match status {
            TicketStatusJson::Open => rpcgate_store::TicketStatus::Open,
            TicketStatusJson::Answered => rpcgate_store::TicketStatus::Answered,
            TicketStatusJson::Closed => rpcgate_store::TicketStatus::Closed,
        }
    }
}

/// A tenant's rating of the support on a ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Satisfaction)]
pub struct SatisfactionJson {
    /// From 1, very bad, to 5, very good.
    #[schema(minimum = 1, maximum = 5)]
    pub rating: u8,
    /// The reason, or null.
    pub text: Option<String>,
    /// The time of the rating.
    #[schema(value_type = String, format = DateTime)]
    pub rated_at: Moment,
}

/// A support ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub struct TicketJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its tenant.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The user who wrote it.
    #[schema(format = "uuid")]
    pub user_id: String,
    /// Its category.
    pub category: TicketCategoryJson,
    /// Its status.
    pub status: TicketStatusJson,
    /// The subject, one line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The linked request for another plan, or null.
    #[schema(format = "uuid")]
    pub limit_request_id: Option<String>,
    /// The tenant's rating, or null.
    pub csat: Option<SatisfactionJson>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The time of the last change to its status, comments or files.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Moment,
    /// The time at which it was closed, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub closed_at: Option<Moment>,
}

impl From<rpcgate_store::SupportTicket> for TicketJson {
    fn from(ticket: rpcgate_store::SupportTicket) -> Self {
        TicketJson {
            id: ticket.id.to_string(),
            tenant_id: ticket.tenant.to_string(),
            user_id: ticket.user.to_string(),
            category: ticket.category.into(),
            status: ticket.status.into(),
            subject: ticket.subject,
            text: ticket.text,
            limit_request_id: ticket.limit_request.map(|id| id.to_string()),
            csat: ticket.satisfaction.map(|satisfaction| SatisfactionJson {
                rating: satisfaction.rating,
                text: satisfaction.text,
                rated_at: satisfaction.rated_at.into(),
            }),
            created_at: ticket.created_at.into(),
            updated_at: ticket.updated_at.into(),
            closed_at: ticket.closed_at.map(Moment),
        }
    }
}

/// A new ticket.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTicket)]
pub struct NewTicketJson {
    /// Its category.
    pub category: TicketCategoryJson,
    /// The subject, one line of at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub subject: String,
    /// The text, at most 5,000 characters.
    #[schema(min_length = 1, max_length = 5000)]
    pub text: String,
    /// Only for the category `limit_increase`: the requested built-in plan. A limit request is created for it unless
    /// one is pending. May be left out while one is pending.
    pub requested_tier: Option<TierJson>,
    /// The requested plan as an alternative to `requested_tier`: a name from `GET /plans`, or the identifier of a
    /// custom plan.
    #[schema(max_length = 40)]
    pub requested_plan: Option<String>,
}

/// A tenant's rating of the support on a ticket.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSatisfaction {
    /// From 1, very bad, to 5, very good.
    #[schema(minimum = 1, maximum = 5)]
    pub rating: u8,
    /// The reason, at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub text: Option<String>,
}

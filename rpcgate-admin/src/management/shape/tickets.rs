//! Support tickets.

use crate::management::shape::moment::Moment;
use crate::management::shape::tenants::TierJson;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a ticket is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TicketCategory)]
pub enum TicketCategoryJson {
    /// A question about the service.
    Question,
    /// Something does not work.
    Problem,
    /// Bills and payments.
    Billing,
    /// The account, its members and their log-ins.
    Account,
    /// A request for another plan, which the ticket is linked to.
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
    /// It is done.
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

/// How satisfied the tenant is with the support on a ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Satisfaction)]
pub struct SatisfactionJson {
    /// From 1, very bad, to 5, very good.
    #[schema(minimum = 1, maximum = 5)]
    pub rating: u8,
    /// The reason, or null.
    pub text: Option<String>,
    /// When it was given.
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
    /// The tenant whose ticket it is.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The user who wrote it.
    #[schema(format = "uuid")]
    pub user_id: String,
    /// What it is about.
    pub category: TicketCategoryJson,
    /// Its status.
    pub status: TicketStatusJson,
    /// One line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The request for another plan to which it is linked, or null.
    #[schema(format = "uuid")]
    pub limit_request_id: Option<String>,
    /// The tenant's satisfaction, or null.
    pub csat: Option<SatisfactionJson>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When its status, its comments or its files last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Moment,
    /// When it was closed, or null.
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
    /// What it is about.
    pub category: TicketCategoryJson,
    /// One line, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub subject: String,
    /// The text, at most 5,000 characters.
    #[schema(min_length = 1, max_length = 5000)]
    pub text: String,
    /// Only for the category `limit_increase`: the requested plan, for which a limit request is made unless one is
    /// pending already. May be left out while one is pending.
    pub requested_tier: Option<TierJson>,
    /// The same, by the name of a plan that `GET /plans` lists, or the identifier of one of the operator's own.
    #[schema(max_length = 40)]
    pub requested_plan: Option<String>,
}

/// How satisfied the tenant is.
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

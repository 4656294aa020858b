//! The categories of support tickets.

use super::named::named_values;

/// The category of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TicketCategory {
    /// A question about the service.
    Question,
    /// A malfunction.
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

impl TicketCategory {
    /// All categories.
    pub const ALL: [TicketCategory; 6] = [
        TicketCategory::Question,
        TicketCategory::Problem,
        TicketCategory::Billing,
        TicketCategory::Account,
        TicketCategory::LimitIncrease,
        TicketCategory::Other,
    ];

    /// Returns its name in the database and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            TicketCategory::Question => "question",
            TicketCategory::Problem => "problem",
            TicketCategory::Billing => "billing",
            TicketCategory::Account => "account",
            TicketCategory::LimitIncrease => "limit_increase",
            TicketCategory::Other => "other",
        }
    }
}

named_values!(TicketCategory, "category");

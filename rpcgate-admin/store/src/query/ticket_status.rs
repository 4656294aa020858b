//! The status of support tickets.

use super::named::named_values;

/// The status of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TicketStatus {
    /// Waits for an operator.
    Open,
    /// Answered by an operator; waits for the tenant.
    Answered,
    /// Done.
    Closed,
}

impl TicketStatus {
    /// All statuses.
    pub const ALL: [TicketStatus; 3] = [TicketStatus::Open, TicketStatus::Answered, TicketStatus::Closed];

    /// Returns its name in the database and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            TicketStatus::Open => "open",
            TicketStatus::Answered => "answered",
            TicketStatus::Closed => "closed",
        }
    }
}

named_values!(TicketStatus, "status");

//! The dashboard pages that mails link to.

use rpcgate_core::caller::ProjectId;
use rpcgate_store::{InvoiceNumber, NotificationKind, TicketId, WebhookId};
use std::fmt;

/// The subject of a mail, to whose page it links. [`Display`](fmt::Display) writes the page's path below the
/// dashboard's root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MailObject {
    /// The reader's account, with address and password.
    Account,
    /// The reader's sessions and second factors.
    Security,
    /// The reader's personal access tokens.
    AccessTokens,
    /// The start page after the log-in.
    Start,
    /// The log-in form.
    LogIn,
    /// The form that requests a new password.
    ForgottenPassword,
    /// The organisation's members, their roles and the open invitations.
    Team,
    /// A project with its keys.
    Project(ProjectId),
    /// A webhook with its deliveries.
    Webhook(WebhookId),
    /// All webhooks.
    Webhooks,
    /// The organisation's bills, payment state and means of payment.
    Billing,
    /// An invoice.
    Invoice(InvoiceNumber),
    /// The usage.
    Usage,
    /// The chains with the prices of their methods.
    Chains,
    /// The requests for another plan.
    LimitRequests,
    /// A support ticket.
    Ticket(TicketId),
}

impl MailObject {
    /// Returns the page's URL. In a line of its own it becomes a link.
    pub fn url(self, dash_url: &str) -> String {
        format!("{}/{self}", dash_url.trim_end_matches('/'))
    }
}

impl fmt::Display for MailObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MailObject::Account => "account",
            MailObject::Security => "account/security",
            MailObject::AccessTokens => "account/tokens",
            MailObject::Start => "",
            MailObject::LogIn => "login",
            MailObject::ForgottenPassword => "password/forgot",
            MailObject::Team => "team",
            MailObject::Project(id) => return write!(f, "projects/{id}"),
            MailObject::Webhook(id) => return write!(f, "webhooks/{id}"),
            MailObject::Webhooks => "webhooks",
            MailObject::Billing => "billing",
            MailObject::Invoice(number) => return write!(f, "invoices/{number}"),
            MailObject::Usage => "usage",
            MailObject::Chains => "chains",
            MailObject::LimitRequests => "plan/request",
            MailObject::Ticket(id) => return write!(f, "support/{id}"),
        })
    }
}

impl From<NotificationKind> for MailObject {
    /// Returns the default page for notifications of a kind.
    fn from(kind: NotificationKind) -> Self {
        match kind {
            NotificationKind::DailyRequests80
            | NotificationKind::DailyRequests95
            | NotificationKind::DailyRequests100
            | NotificationKind::RateLimitedSpike => MailObject::Usage,
            NotificationKind::Invoice | NotificationKind::Suspension => MailObject::Billing,
            NotificationKind::Security => MailObject::Security,
            NotificationKind::WebhookHealth => MailObject::Webhooks,
            NotificationKind::Prices => MailObject::Chains,
            NotificationKind::LimitDecision => MailObject::LimitRequests,
        }
    }
}

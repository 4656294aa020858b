//! Reads and writes of the databases, one file for each noun.

mod access_tokens;
mod accounts;
mod allowances;
mod any_names;
mod attempt_batch;
mod attempts;
pub(super) mod audit;
mod billing;
mod billing_accounts;
mod callers;
mod chain_events;
mod chains;
pub(super) mod changes;
mod checkouts;
mod claim_room;
mod confirmations;
mod contracts;
mod credit_notes;
mod custom_plans;
mod days;
mod deleted_tenants;
mod delivery_ends;
mod delivery_list;
mod digest;
mod due_deliveries;
mod email_changes;
mod event_retention;
mod events;
mod factors;
mod failing_webhooks;
mod figures;
mod first_use;
#[cfg(feature = "api")]
mod followed_blocks;
mod gateways;
mod id;
pub(super) mod idempotency;
mod indexed_subscriptions;
mod invitations;
mod invoice_notices;
mod invoices;
mod key_names;
mod keys;
mod known_devices;
mod ledger;
mod limit_requests;
mod limit_reviews;
mod live_tenants;
mod lookup;
mod mail_tokens;
mod matched_events;
mod members;
mod named;
mod new_deliveries;
mod notices;
mod notification_preferences;
mod notification_reads;
mod notifications;
mod oldest_work;
#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "tests/mod.rs"]
mod on_postgres;
mod open_work;
mod outgoing_mails;
mod overlay;
mod passkeys;
mod pending_log_ins;
mod plans;
mod project_counts;
mod projects;
mod quotas;
mod recovery_codes;
mod refreshes;
mod registrations;
mod removal;
mod removed_events;
mod resets;
mod restore;
mod retention;
#[cfg(test)]
#[cfg(feature = "api")]
pub(crate) mod sample_webhooks;
#[cfg(test)]
pub(crate) mod seeded_deliveries;
mod served_hours;
mod session_rows;
mod sessions;
mod shipment;
mod source;
mod spent;
mod subscriptions;
mod summed;
mod sums;
mod sweep;
mod tenants;
mod terms;
#[cfg(test)]
mod tests;
mod ticket_attachments;
mod ticket_category;
mod ticket_comments;
mod ticket_status;
mod ticket_texts;
mod tickets;
mod tier_changes;
mod totp;
mod usage;
mod usage_rows;
mod users;
pub(super) mod value;
pub(super) mod versions;
mod watched_chains;
mod webhooks;
mod weights;
mod whole_invoices;
mod wide;

pub use access_tokens::AccessToken;
pub use accounts::{Account, AccountFilter};
pub(super) use attempt_batch::write as write_attempts;
pub(super) use attempts::AttemptWrite;
pub use attempts::{ATTEMPTS, Attempt, AttemptKind, AttemptTicket, LOCK};
pub use audit::{Audit, AuditFilter, AuditSubject};
pub use billing::{NewInvoice, PeriodClosed, SettledInvoice, UnclosedTenant};
pub use callers::StoredKey;
pub use chain_events::{ChainEventFilter, LogPage, LogPosition, LoggedEvent};
pub use checkouts::{Checkout, CheckoutOutcome, CheckoutSubject};
pub use claim_room::{ClaimRoom, TenantRoom};
pub use contracts::{MAX_CONTRACTS, TenantContract};
pub use credit_notes::{CreditNote, CreditNoteNumber, NewCreditNote};
pub use custom_plans::{CustomPlan, CustomPlanChange, MAX_CUSTOM_PLANS};
pub use delivery_ends::{AfterAttempt, EndedAttempt, EndpointTurns, FailingEndpoint};
pub use delivery_list::{Delivery, DeliveryAttempt, DeliveryStatus, WholeDelivery};
pub use digest::Digest;
pub use due_deliveries::{DueDelivery, ReleasedDelivery};
pub use email_changes::{EmailChange, EmailChangeOutcome, EmailChanged};
pub use event_retention::{DELIVERIES_KEPT, SweptEvents};
pub use factors::{FactorUse, Factors, LogInMethod};
pub use figures::{DefaultQuota, Figure, Figures};
pub use followed_blocks::{Followed, UnfinishedBlock};
pub use gateways::{GatewayReport, NodeState};
pub use id::{
    AccessTokenId, ChainEventId, CheckoutId, ContractId, DeliveryId, InvitationId, LimitRequestId,
    NotificationId, PasskeyId, SessionId, SubscriptionId, TicketAttachmentId, TicketCommentId, TicketId,
    UserId, WebhookId,
};
pub use idempotency::{ANSWER_KEPT, KeyedRequest, Run, RunOutcome};
pub use invitations::{Invitation, InvitationAcceptance, InviteOutcome};
pub use invoice_notices::InvoiceNews;
pub use invoices::{
    Invoice, InvoiceAmounts, InvoiceFilter, InvoiceLine, InvoiceNumber, InvoiceSeller, InvoiceStatus,
    LineKind, NotInvoiceNumber,
};
pub use key_names::KeyName;
pub use keys::Key;
pub use known_devices::DeviceFamiliarity;
pub use limit_requests::{LimitRequest, RequestStatus, Verdict};
pub use mail_tokens::Purpose;
pub use matched_events::{MatchedEvent, MatchedSubscription};
pub use members::{MemberChange, MemberChangeOutcome};
pub use new_deliveries::{MAX_REPLAYED, MAX_WAITING};
pub use notices::{AccountNotice, MailedNotice, NotificationKind};
pub use notification_preferences::NotificationPreference;
pub use notifications::Notification;
pub use open_work::OpenWork;
pub use outgoing_mails::{ClaimedMail, ClaimedMails, MailRoom, OutgoingMail};
pub use passkeys::{MAX_PASSKEYS, StoredPasskey};
pub use pending_log_ins::{FACTOR_TRIES, MAX_PENDING_LOG_INS, PENDING_LOG_IN_LIFE};
pub use project_counts::ProjectCounts;
pub use projects::{Project, ProjectChange};
pub use refreshes::{Rotation, SessionLifetimes};
pub use registrations::{Registered, Registration};
pub use sessions::Session;
pub use spent::Spent;
pub use subscriptions::WebhookSubscription;
pub use sweep::Swept;
pub use tenants::{Tenant, TenantChange, TenantFilter};
pub use terms::Terms;
pub use ticket_attachments::{AttachmentBounds, AttachmentKind, TicketAttachment};
pub use ticket_category::TicketCategory;
pub use ticket_comments::TicketComment;
pub use ticket_status::TicketStatus;
pub use tickets::{Satisfaction, SupportTicket, TicketFilter, TicketLimitRequest};
pub use tier_changes::{TenantPlan, TierChange};
pub use totp::StoredTotp;
pub use users::{Role, UnknownName, User};
pub use versions::{Expected, Version, Versioned};
pub use watched_chains::{WatchLease, WatchOutcome};
pub use webhooks::{SealedSecrets, Webhook, WebhookChange};
pub use whole_invoices::WholeInvoice;

//! The rules: everything that can be done. The API and the pages only translate.

pub mod access_tokens;
pub mod accounts;
pub mod actor;
pub mod audit;
pub mod billing;
#[cfg(feature = "passkeys")]
mod ceremonies;
pub mod chain_events;
pub mod chains;
pub mod checkouts;
pub mod contracts;
pub mod deliveries;
pub mod emails;
pub mod factor_policy;
pub mod factors;
pub mod idempotency;
pub mod invitations;
pub mod invoices;
pub mod keys;
pub mod limit_requests;
pub mod me;
pub mod members;
pub mod notification_preferences;
pub mod notifications;
pub mod operator;
#[cfg(feature = "passkeys")]
pub mod passkeys;
pub mod plans;
pub mod projects;
pub mod quotas;
pub mod recovery_codes;
pub mod resets;
pub mod security;
pub mod sessions;
pub mod subscriptions;
mod suspensions;
pub mod tenants;
pub mod text;
pub mod ticket_attachments;
pub mod ticket_comments;
pub mod tickets;
pub mod totp;
pub mod usage;
pub mod versions;
pub mod webhook_failures;
pub mod webhooks;

//! The rules: everything that can be done. The API and the pages only translate.

pub mod access_tokens;
pub mod accounts;
pub mod actor;
pub mod audit;
pub mod chains;
pub mod emails;
pub mod idempotency;
pub mod invitations;
pub mod keys;
pub mod limit_requests;
pub mod me;
pub mod members;
pub mod notifications;
pub mod operator;
pub mod plans;
pub mod projects;
pub mod quotas;
pub mod resets;
pub mod sessions;
pub mod tenants;
pub mod text;
pub mod ticket_attachments;
pub mod ticket_comments;
pub mod tickets;
pub mod usage;
pub mod versions;

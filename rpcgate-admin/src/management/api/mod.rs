//! The JSON interface of the actions. It contains no rules.

pub mod accounts;
pub mod audit;
pub mod chains;
pub mod emails;
pub mod health;
pub mod invitations;
pub mod keys;
pub mod limit_requests;
pub mod list;
pub mod me;
pub mod members;
pub mod moment;
pub mod notifications;
pub mod operator;
pub mod plans;
pub mod projects;
pub mod quotas;
pub mod resets;
pub mod roles;
pub mod sessions;
pub mod tenants;
pub mod ticket_attachments;
pub mod ticket_comments;
pub mod tickets;
pub mod usage;

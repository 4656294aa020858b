//! JSON shapes of objects that only operators manage.

pub mod chains;
pub mod config_versions;
pub mod contracts;
pub mod custom_plans;
pub mod invoices;
pub mod limit_requests;
pub mod nodes;
pub mod payments;
pub mod plans;
pub mod quotas;
pub mod tenants;
pub mod tickets;
pub mod users;
pub mod weights;
pub mod what_if;

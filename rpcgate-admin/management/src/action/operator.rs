//! Actions of operators on any tenant and on the service.

pub mod audit;
pub mod chains;
pub mod config_versions;
pub mod contracts;
pub mod custom_plans;
pub mod invoices;
pub mod limit_requests;
pub mod lookup;
pub mod nodes;
pub mod overview;
pub mod plans;
pub mod price_notices;
pub mod quotas;
mod recent_days;
pub mod rollback;
pub mod tenant_profile;
pub mod tenants;
pub mod tickets;
pub mod users;
pub mod weights;
pub mod what_if;

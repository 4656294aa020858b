//! What is asked of the database and written to it, one file for each noun.

mod callers;
mod chains;
pub(super) mod changes;
mod events;
mod keys;
mod overlay;
mod plans;
mod projects;
mod quotas;
mod restore;
mod retention;
mod shipment;
mod tenants;
#[cfg(test)]
mod tests;
mod usage;
mod users;
pub(super) mod value;
mod weights;

pub use callers::StoredKey;
pub use keys::Key;
pub use projects::Project;
pub use tenants::Tenant;
pub use users::{User, UserId};

//! What is asked of the database and written to it, one file for each noun.

mod attempts;
pub(super) mod audit;
mod callers;
mod chains;
pub(super) mod changes;
mod confirmations;
mod digest;
mod events;
mod id;
mod keys;
mod limit_requests;
mod overlay;
mod plans;
mod projects;
mod quotas;
mod refreshes;
mod registrations;
mod restore;
mod retention;
mod sessions;
mod shipment;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;
mod usage;
mod users;
pub(super) mod value;
mod weights;

pub use attempts::{ATTEMPTS, Attempt, LOCK, Ticket};
pub use audit::{Audit, Whose};
pub use callers::StoredKey;
pub use digest::Digest;
pub use id::{LimitRequestId, SessionId, UserId};
pub use keys::Key;
pub use limit_requests::{LimitRequest, RequestStatus, Verdict};
pub use projects::{Project, ProjectChange};
pub use refreshes::Rotation;
pub use registrations::{Registered, Registration};
pub use sessions::Session;
pub use sweep::Swept;
pub use tenants::{Tenant, TenantChange};
pub use users::{Role, UnknownName, User};

//! The audit: who did what, and when.

use crate::access::Session;
use crate::error::ActionError;
use crate::extract::Client;
use crate::house::House;
use crate::identity::role::{Permission, Role};
use crate::store::{Audit, Whose};
use rpcgate_core::clock::Time;

/// Entries that are told if nobody says how many.
pub const USUAL: u64 = 100;

/// The most entries that are told at once.
pub const MOST: u64 = 1_000;

/// The entry of `action`, done to `subject` by whoever is logged in as `session`, in its own tenant.
pub fn entry(session: &Session, client: &Client, action: &str, subject: String, at: Time) -> Audit {
    Audit {
        tenant: session.user.tenant,
        user: Some(session.user.id),
        action: action.to_owned(),
        subject,
        address: client.address.to_string(),
        at,
        detail: String::new(),
    }
}

/// The newest entries first. Whoever may read the tenant's audit reads that of the whole tenant, others what they did
/// themselves.
///
/// # Errors
/// [`ActionError::Invalid`] for a `limit` that is none, [`ActionError::Away`].
pub async fn list(house: &House, session: &Session, limit: Option<u64>) -> Result<Vec<Audit>, ActionError> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(ActionError::Invalid(format!("`limit` must be a whole number from 1 to {MOST}")));
    }
    let user = &session.user;
    let whose = match user.tenant {
        Some(tenant) if Role::from(user.role).allows(Permission::ReadAudit) => Whose::Tenant(tenant),
        _ => Whose::User(user.id),
    };
    Ok(house.store.audit(whose, limit).await?)
}

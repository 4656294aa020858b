//! The audit log: the actions of users, with their times.

use super::actor::{Actor, COMMAND_LINE};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::identity::role::Permission;
use rpcgate_core::clock::Time;
use rpcgate_store::{Audit, AuditFilter, AuditSubject};
use std::collections::HashSet;

/// Makes the entry of `action` on `subject` by the user of `session`, in the user's own tenant.
pub fn entry(session: &AuthSession, client: &Client, action: &str, subject: String, at: Time) -> Audit {
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

/// Lists at most `limit` numbered entries that match `filter`, the newest first, after the position `before`. Users who
/// may read the tenant's audit log get the entries of the whole tenant, others only their own. Members see that an
/// operator acted, but not which one, nor from where.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    actor: &Actor,
    filter: &AuditFilter,
    before: Option<(Time, i64)>,
    limit: u64,
) -> Result<Vec<(i64, Audit)>, ActionError> {
    let user = &actor.user;
    let reads_all = Permission::ReadAudit.is_granted_to(user.role) && actor.covers(Permission::ReadAudit);
    let subject = match user.tenant {
        Some(tenant) if reads_all => AuditSubject::Tenant(tenant),
        _ => AuditSubject::User(user.id),
    };
    let mut entries = app.store.audit_before(subject, filter, before, limit).await?;
    if !user.is_operator() {
        let users: HashSet<_> = entries.iter().filter_map(|(_, entry)| entry.user).collect();
        let operators = app.store.operators_among(&users).await?;
        let is_of_operator = |entry: &Audit| match entry.user {
            Some(id) => operators.contains(&id),
            None => entry.address.starts_with(COMMAND_LINE),
        };
        for (_, entry) in entries.iter_mut().filter(|(_, entry)| is_of_operator(entry)) {
            (entry.user, entry.address) = (None, String::new());
        }
    }
    Ok(entries)
}

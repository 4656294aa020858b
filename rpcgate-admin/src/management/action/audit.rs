//! The audit log: which user did what, and when.

use super::actor::Actor;
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::role::Permission;
use crate::store::{Audit, AuditFilter, AuditSubject};
use rpcgate_core::clock::Time;

/// The entry of `action`, done to `subject` by the user of `session`, in the user's own tenant.
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

/// Lists entries that match `filter` with their numbers, the newest first, starting behind `before` in this order: at
/// most `limit`. Users who may read the tenant's audit get the entries of the whole tenant, others those of their own
/// actions.
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
    let reads_all = user.role.allows(Permission::ReadAudit) && actor.covers(Permission::ReadAudit);
    let subject = match user.tenant {
        Some(tenant) if reads_all => AuditSubject::Tenant(tenant),
        _ => AuditSubject::User(user.id),
    };
    Ok(app.store.audit_before(subject, filter, before, limit).await?)
}

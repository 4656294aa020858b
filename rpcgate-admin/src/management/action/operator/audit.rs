//! The audit log of all tenants.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{Audit, AuditFilter, AuditSubject};

/// Lists entries that match `filter` with their numbers, the newest first, starting behind `before` in this order: at
/// most `limit`, of `tenant` or of all.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    tenant: Option<TenantId>,
    filter: &AuditFilter,
    before: Option<(Time, i64)>,
    limit: u64,
) -> Result<Vec<(i64, Audit)>, ActionError> {
    let subject = tenant.map_or(AuditSubject::Everyone, AuditSubject::Tenant);
    Ok(app.store.audit_before(subject, filter, before, limit).await?)
}

//! The audit log of all tenants.

use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{Audit, AuditFilter, AuditSubject};

/// Lists at most `limit` numbered entries that match `filter`, of `tenant` or of all, the newest first, after the
/// position `before`.
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

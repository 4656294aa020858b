//! The lookup of tenants, projects and keys by name, for operators who do not know identifiers.

use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_store::{FoundTenants, Key, Project, Tenant, TenantFilter, UserId};
use std::collections::BTreeMap;

/// The maximum number of results with the same name. Names are not unique.
pub const MAX_FOUND: u64 = 10;

/// Lists the tenants with exactly this name, the oldest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn tenants_named(app: &AppState, name: &str) -> Result<Vec<Tenant>, ActionError> {
    Ok(app.store.tenants_named(name, MAX_FOUND).await?)
}

/// Finds at most `limit` tenants that match `filter`, by a part of the name, by the address of an owner, or by the
/// beginning of the identifier, ignoring case. The order is by identifier, starting after `after`.
/// [`FoundTenants::next`] is the position for the next search.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn search_tenants(
    app: &AppState,
    text: &str,
    filter: TenantFilter,
    after: Option<TenantId>,
    limit: u64,
) -> Result<FoundTenants, ActionError> {
    Ok(app.store.search_tenants(text, filter, after, limit).await?)
}

/// Lists the projects with exactly this name, of one tenant or of all, the oldest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn projects_named(
    app: &AppState,
    tenant: Option<TenantId>,
    name: &str,
) -> Result<Vec<Project>, ActionError> {
    Ok(app.store.projects_named(tenant, name, MAX_FOUND).await?)
}

/// Returns a project of any tenant.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn project(app: &AppState, id: ProjectId) -> Result<Project, ActionError> {
    const UNKNOWN: ActionError = ActionError::NotFound("project");
    let tenant = app.store.tenant_of(id).await?.ok_or(UNKNOWN)?;
    app.store.project(tenant, id).await?.ok_or(UNKNOWN)
}

/// Returns a key of any tenant, revoked or not, with its tenant.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn key(app: &AppState, id: KeyId) -> Result<(TenantId, Key), ActionError> {
    app.store.any_key(id).await?.ok_or(ActionError::NotFound("key"))
}

/// Lists the keys that begin with `prefix`, the 12 visible characters of a key, each with its tenant, the oldest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn keys_with_prefix(app: &AppState, prefix: &str) -> Result<Vec<(TenantId, Key)>, ActionError> {
    Ok(app.store.keys_with_prefix(prefix, MAX_FOUND).await?)
}

/// Returns the names of the existing tenants among `ids`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn tenant_names(
    app: &AppState,
    ids: &[TenantId],
) -> Result<BTreeMap<TenantId, String>, ActionError> {
    Ok(app.store.tenant_names(ids).await?)
}

/// Returns the names of the existing users among `ids`, or the addresses of those without a name.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn user_names(app: &AppState, ids: &[UserId]) -> Result<BTreeMap<UserId, String>, ActionError> {
    Ok(app.store.user_names(ids).await?)
}

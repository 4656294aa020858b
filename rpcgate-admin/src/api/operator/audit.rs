//! Routes of the audit log of all tenants.

use crate::api::audit::{AuditQuery, before, shown};
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use rpcgate_management::action;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Query;
use rpcgate_management::shape::audit::EntryJson;
use rpcgate_management::shape::list::{Page, PageRequest};
use serde::Deserialize;
use std::sync::Arc;

/// The filter by tenant.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct AuditTenantQuery {
    /// Only entries about this tenant.
    pub tenant_id: Option<String>,
}

/// Read the audit log of all tenants
///
/// Newest first. With `Accept: text/csv` the page is a CSV file.
#[utoipa::path(get, path = "/operator/audit", operation_id = "operator_list_audit", tag = "operator",
   params(("tenant_id" = Option<String>, Query, format = "uuid", description = "Only entries about this tenant."),
       AuditQuery, Page),
    responses((status = 200, description = "The newest entries.",
        content((Vec<EntryJson> = "application/json"), (String = "text/csv")))))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(AuditTenantQuery { tenant_id }): Query<AuditTenantQuery>,
    Query(query): Query<AuditQuery>,
    headers: HeaderMap,
) -> Result<Response, ActionError> {
    let tenant = tenant_id.map(|id| id.parse()).transpose();
    let tenant = tenant.map_err(|_| ActionError::named("tenant_id", "must be a UUID"))?;
    let filter = query.filter()?;
    let before = before(&page)?;
    let entries = action::operator::audit::list(&app, tenant, &filter, before, page.limit).await?;
    Ok(shown(page, entries, &headers))
}

//! Routes of all tenants.

use crate::api::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_core::caller::TenantId;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::plans::PlanNames;
use rpcgate_management::action::step_up;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id, Query};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::tenants::TenantChangeJson;
use rpcgate_management::shape::tenants::{TenantJson, TenantStatus};
use rpcgate_store::{TenantChange, TenantFilter, Versioned};
use serde::Deserialize;
use std::sync::Arc;

/// The filter of tenants.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct TenantQuery {
    /// Only tenants after this identifier.
    pub after: Option<String>,
}

/// List all tenants
///
/// In the order of their identifiers, which is approximately the order of their creation. `after` is the identifier
/// after which to begin, like a `cursor`.
#[utoipa::path(get, path = "/operator/tenants", operation_id = "operator_list_tenants", tag = "operator",
   params(("after" = Option<String>, Query, format = "uuid", description = "Only tenants that follow this one."),
        Page),
    responses((status = 200, description = "The tenants.", body = [TenantJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(query): Query<TenantQuery>,
) -> Result<ListPage<TenantJson>, ActionError> {
    let after = query.after.map(|after| after.parse());
    let after = after.transpose().map_err(|_| ActionError::named("after", "must be a UUID"))?;
    let after = page.read(|cursor| cursor.parse().ok())?.or(after);
    let tenants = action::operator::tenants::list(&app, TenantFilter::default(), after, page.limit).await?;
    let last = tenants.last().filter(|_| tenants.len() as u64 == page.limit);
    let next = last.map(|last| last.id.to_string());
    let names = PlanNames::read(&app).await?;
    Ok(page.page(tenants, next).map(|tenant| TenantJson::of(tenant, &names)))
}

/// Read a tenant
#[utoipa::path(get, path = "/operator/tenants/{id}", operation_id = "operator_get_tenant", tag = "operator",
    responses((status = 200, description = "The tenant.", body = TenantJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    Id(id): Id<TenantId>,
) -> Result<Tagged<TenantJson>, ActionError> {
    let version = current(&app, Versioned::Tenant(id)).await?;
    let tenant = action::operator::tenants::get(&app, id).await?;
    Ok(Tagged::new(version, TenantJson::named(&app, tenant).await?))
}

/// Suspend a tenant or move it to another plan
///
/// Gateways apply it within a second.
#[utoipa::path(put, path = "/operator/tenants/{id}", operation_id = "operator_update_tenant", tag = "operator",
    params(IfMatchHeader),
    request_body = TenantChangeJson,
    responses((status = 200, description = "The tenant as it is now.", body = TenantJson)))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TenantId>,
    Body(change): Body<TenantChangeJson>,
) -> Result<Json<TenantJson>, ActionError> {
    let suspended = change.status.map(|status| status == TenantStatus::Suspended);
    let custom_plan = change.custom_plan_id.map(|id| id.parse()).transpose();
    let custom_plan = custom_plan.map_err(|_| ActionError::named("custom_plan_id", "must be a UUID"))?;
    let tier = change.tier.map(Into::into);
    let change = TenantChange { tier, custom_plan, suspended, ..TenantChange::default() };
    let tenant = action::operator::tenants::update(&app, &actor, id, change).await?;
    Ok(Json(TenantJson::named(&app, tenant).await?))
}

/// Delete a tenant
///
/// Also deletes its users, projects, keys and tickets, permanently. Its keys are refused within a second. Its usage
/// expires as usual, and its invoices are kept. A tenant that has an open invoice, or owes something for a month that
/// is not closed, is not deleted: suspend it, move it to a plan without a fee, and delete it once the month is closed.
/// A log-in session needs a proof from the last ten minutes (`POST /auth/proof`).
#[utoipa::path(delete, path = "/operator/tenants/{id}", operation_id = "operator_delete_tenant", tag = "operator",
    params(("If-Match" = Option<String>, Header, pattern = r#"^(\*|"[!#-~]*")$"#,
            description = "The `ETag` of the version that is to be deleted.")),
    responses((status = 204, description = "It is deleted."),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "It has an open invoice, or owes something that is not billed yet.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    actor: Actor,
    Id(id): Id<TenantId>,
) -> Result<StatusCode, ActionError> {
    step_up::require(&app, &session, None, &client).await?;
    action::operator::tenants::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

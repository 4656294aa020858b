//! Contracts: single figures that a tenant has in place of its plan's.

use super::figures::FiguresJson;
use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_store::TenantContract;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A contract.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Contract)]
pub struct ContractJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The tenant.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// The figures that the tenant has in place of its plan's. If several contracts set the same one, the contract that
    /// was made last prevails.
    pub figures: FiguresJson,
    /// From when on it is in force.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// Until when, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Moment>,
    /// A note of the operator, or empty.
    pub note: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<TenantContract> for ContractJson {
    fn from(contract: TenantContract) -> Self {
        ContractJson {
            id: contract.id.to_string(),
            tenant_id: contract.tenant.to_string(),
            figures: contract.figures.into(),
            from: contract.from.into(),
            until: contract.until.map(Moment),
            note: contract.note,
            created_at: contract.created_at.into(),
        }
    }
}

/// List the contracts of a tenant
///
/// The oldest first, also those that have not begun, and those that ended in the last 400 days.
#[utoipa::path(get, path = "/tenants/{id}/contracts", operation_id = "list_contracts", tag = "tenants",
    params(Page, ("id" = String, Path, format = "uuid", description = "The caller's tenant.")),
    responses((status = 200, description = "All contracts.", body = [ContractJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(tenant): Id<TenantId>,
) -> Result<ListPage<ContractJson>, ActionError> {
    let contracts = action::contracts::list(&app, &actor, tenant).await?;
    page.of(contracts.into_iter().map(ContractJson::from).collect(), false, |one| &one.id)
}

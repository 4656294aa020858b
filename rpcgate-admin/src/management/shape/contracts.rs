//! Contracts: single figures that a tenant has in place of its plan's.

use crate::management::shape::figures::FiguresJson;
use crate::management::shape::moment::Moment;
use rpcgate_store::TenantContract;
use serde::Serialize;
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

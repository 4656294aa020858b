//! JSON shape of a contract, which overrides values of a tenant's plan.

use crate::shape::figures::FiguresJson;
use crate::shape::moment::Moment;
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
    /// The values that override those of the tenant's plan. If several contracts set the same value, the newest
    /// contract prevails.
    pub figures: FiguresJson,
    /// The time from which it is in force.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// The time until which it is in force, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Moment>,
    /// A note of the operator, or empty.
    pub note: String,
    /// The creation time.
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

//! JSON shapes of operators' changes to contracts.

use crate::shape::figures::FiguresJson;
use crate::shape::moment::Moment;
use crate::strict_json::object;
use serde::Deserialize;
use utoipa::ToSchema;

/// The properties of a new contract.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewContract)]
pub struct NewContractJson {
    /// The values that override those of the tenant's plan; at least one.
    #[serde(deserialize_with = "object")]
    pub figures: FiguresJson,
    /// The time from which it is in force; now by default. A time in the past counts as now.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub from: Option<Moment>,
    /// The time until which it is in force; without end by default.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Moment>,
    /// A note, at most 200 characters.
    #[schema(max_length = 200)]
    pub note: Option<String>,
}

/// A change to a contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractEnd {
    /// The time until which it is in force, later than now; null for no end.
    #[serde(deserialize_with = "Deserialize::deserialize")]
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub until: Option<Moment>,
}

//! Contracts with tenants.

use crate::management::shape::figures::FiguresJson;
use crate::management::shape::moment::Moment;
use crate::management::strict_json::object;
use serde::Deserialize;
use utoipa::ToSchema;

/// The properties of a new contract.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewContract)]
pub struct NewContractJson {
    /// The figures that the tenant gets in place of its plan's, at least one.
    #[serde(deserialize_with = "object")]
    pub figures: FiguresJson,
    /// From when on it is in force; now by default. A time in the past counts as now.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub from: Option<Moment>,
    /// Until when; without end by default.
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
    /// Until when it is in force, later than now; null for without end.
    #[serde(deserialize_with = "Deserialize::deserialize")]
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub until: Option<Moment>,
}

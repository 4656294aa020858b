//! JSON shapes of the weights of methods.

use crate::action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The weight of a method.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Weight)]
pub struct WeightJson {
    /// The chain.
    #[schema(example = "btc")]
    pub chain: String,
    /// The method.
    pub method: String,
    /// The weight in force, in Compute Units per call.
    pub cu: u32,
    /// True if an operator has set it.
    pub is_set: bool,
}

impl From<action::operator::weights::Weight> for WeightJson {
    fn from(weight: action::operator::weights::Weight) -> Self {
        let action::operator::weights::Weight { chain, method, cu, is_set } = weight;
        WeightJson { chain: chain.to_owned(), method, cu, is_set }
    }
}

/// A new weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWeight {
    /// Compute Units of a call.
    pub cu: u32,
}

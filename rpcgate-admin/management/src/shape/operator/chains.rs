//! JSON shape of the switch of a chain.

use serde::Deserialize;
use utoipa::ToSchema;

/// The switch of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainSwitch {
    /// True if it is on.
    pub enabled: bool,
}

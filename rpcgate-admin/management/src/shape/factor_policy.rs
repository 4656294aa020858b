//! JSON shape of a tenant's rule about second factors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The rule of a tenant about second factors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FactorPolicy {
    /// True if all members need a second factor. A member without one can only add one.
    pub required: bool,
}

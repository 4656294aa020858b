//! Imports the layers and their parts in one line. `rpcgate_core::prelude` has the types that they work on.

pub use crate::call::batch::BatchLayer;
pub use crate::call::cache::{BoundedReplies, CacheLayer};
pub use crate::call::closed::ClosedLayer;
pub use crate::call::each::{EachLayer, OwnedCall};
pub use crate::call::heavy::{Heavy, HeavyLayer};
pub use crate::call::lists::ListsLayer;
pub use crate::call::overload::OverloadLayer;
pub use crate::call::pace::{Pace, PaceLayer};
pub use crate::call::quota::QuotaLayer;
pub use crate::call::served::ServedLayer;
pub use crate::call::split::SplitBatchLayer;
pub use crate::call::window::WindowLayer;
pub use crate::foreign::{RejectWith, SetRateLimit, caller_of};
#[cfg(feature = "upstream")]
pub use crate::gateway::GatewayService;
#[cfg(feature = "upstream")]
pub use crate::nodes::{ExpectedNetwork, NodeConfig, Pool, PoolLimits, Pools};
pub use crate::request::authenticate::AuthenticateLayer;
pub use crate::request::route::RouteLayer;
pub use crate::request::safeguard::{Safeguard, SafeguardLayer};
pub use crate::request::scope::ScopeLayer;
pub use crate::request::suspend::SuspendLayer;
pub use crate::respond::RespondLayer;
#[cfg(feature = "upstream")]
pub use crate::upstream::Upstream;

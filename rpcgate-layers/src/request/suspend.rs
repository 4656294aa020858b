//! Suspended tenants: their keys remain, but their requests are refused.
//!
//! The layer comes right after authentication. It refuses with [`Refusal::Suspended`].
//!
//! ```
//! use rpcgate_core::{caller::Caller, chain::ChainName, plan::{Plan, Tier}};
//! use rpcgate_layers::request::suspend::SuspendLayer;
//! use std::convert::Infallible;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let layer = SuspendLayer::new()
//!     .with_caller(|request: &http::Request<Caller>| Some((request.body().into(), ChainName::new("toy"))));
//! let inner = service_fn(async |_: http::Request<Caller>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! for (suspended, status) in [(false, 200), (true, 402)] {
//!     let caller = Caller::of(1, Plan::of(Tier::Free)).with_suspended(suspended);
//!     let response = layer.layer(inner).oneshot(http::Request::new(caller)).await.unwrap();
//!     assert_eq!(response.status(), status);
//! }
//! # });
//! ```

use super::policy::{CallerPolicy, policy_layer};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;

policy_layer! {
    /// Refuses the requests of suspended tenants.
    SuspendLayer, Suspend
}

/// The policy of [`SuspendLayer`].
#[derive(Clone, Copy, Debug)]
pub struct Suspend;

impl CallerPolicy for Suspend {
    fn decide(&self, caller: &Caller, _: ChainName) -> Result<(), Refusal> {
        if caller.suspended { Err(Refusal::Suspended) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;

    #[test]
    fn only_the_tenants_state_decides() {
        let chain = ChainName::new("toy");
        assert_eq!(Suspend.decide(&suite::caller(1), chain), Ok(()));
        let suspended = suite::caller(1).with_suspended(true);
        assert_eq!(Suspend.decide(&suspended, chain), Err(Refusal::Suspended));
    }
}

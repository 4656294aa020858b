//! Suspended tenants: their keys are kept, their requests are not served (specification, "States and transitions").
//!
//! Stands right behind authentication. Refuses with [`Refusal::Suspended`].
//!
//! ```
//! use rpcgate_core::{chain::ChainName, refusal::Refusal, backend::suite};
//! use rpcgate_layers::request::{policy::CallerPolicy, suspend::Suspend};
//!
//! let mut caller = suite::caller(1);
//! assert_eq!(Suspend.decide(&caller, ChainName::new("toy")), Ok(()));
//! caller.suspended = true;
//! assert_eq!(Suspend.decide(&caller, ChainName::new("toy")), Err(Refusal::Suspended));
//! ```

use super::policy::{CallerPolicy, policy_layer};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;

policy_layer! {
    /// Refuses the requests of suspended tenants.
    SuspendLayer, Suspend
}

/// The decision.
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
    use bytes::Bytes;
    use rpcgate_core::backend::suite;
    use std::convert::Infallible;
    use tower::{Layer, Service, service_fn};

    #[tokio::test]
    async fn in_a_strangers_stack_a_suspended_tenant_gets_402() {
        let layer = SuspendLayer::new()
            .with_caller(|request: &http::Request<Caller>| Some((request.body(), ChainName::new("toy"))));
        let inner = service_fn(async |_: http::Request<Caller>| {
            Ok::<_, Infallible>(http::Response::new(Bytes::new()))
        });
        let mut service = layer.layer(inner);
        for (suspended, status) in [(false, 200), (true, 402)] {
            let caller = Caller { suspended, ..suite::caller(1) };
            let Ok(response) = service.call(http::Request::new(caller)).await;
            assert_eq!(response.status(), status);
        }
    }
}

//! Closed methods, which no caller may use: they control a node or its wallet, or are not offered.
//!
//! The layer comes after the budgets: a closed heavy method (`trace_*`) uses the heavy budget before it is refused.
//! Nothing is charged. The layer refuses with [`Refusal::Closed`].
//!
//! ```
//! use rpcgate_core::backend::suite;
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, Flags, MethodRule};
//! use rpcgate_core::clock::{ManualClock, Time};
//! use rpcgate_layers::call::closed::ClosedLayer;
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let caller = Arc::new(suite::caller(1));
//! let clock = Arc::new(ManualClock::at(Time::default()));
//! let layer = ClosedLayer::new().with_call(clock, move |request: &http::Request<&'static str>| {
//!     let flags = if request.body().starts_with("admin_") { Flags::CLOSED } else { Flags::NONE };
//!     let rule = MethodRule::UNLISTED.marked(flags);
//!     Some((caller.clone().into(), CallView::new(ChainName::new("toy"), request.body(), rule)))
//! });
//! let inner = service_fn(async |_: http::Request<&'static str>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let service = layer.layer(inner);
//! let call = async |method| service.clone().oneshot(http::Request::new(method)).await.unwrap().into_body();
//! assert_eq!(call("toy_read").await, "");
//! assert!(call("admin_stop").await.ends_with(br#""error":{"code":-32601,"message":"method not available"}}"#));
//! # });
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Opened};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::Flags;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;

gate_layer! {
    /// Refuses calls that are marked as closed.
    ClosedLayer, Closed
}

impl ClosedLayer {
    /// Creates the layer.
    pub fn new() -> Self {
        Self::by(std::sync::Arc::new(Closed))
    }
}

impl Default for ClosedLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy of [`ClosedLayer`].
#[derive(Clone, Copy, Debug)]
pub struct Closed;

impl CallPolicy for Closed {
    type At = Opened;

    fn concerns(&self, tally: &Tally) -> bool {
        super::is_any_marked(tally, Flags::CLOSED)
    }

    fn decide(&self, call: CallView<'_>, _: &Caller, _: Time) -> Result<(), Refusal> {
        if call.rule.flags.has(Flags::CLOSED) { Err(Refusal::Closed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;
    use rpcgate_core::chain::{ChainName, MethodRule};

    #[test]
    fn open_methods_pass() {
        let call = CallView::new(ChainName::new("toy"), "toy_read", MethodRule::UNLISTED);
        assert_eq!(Closed.decide(call, &suite::caller(1), Time::default()), Ok(()));
    }
}

//! Checks that the chain is enabled at this gateway and has a node for the transport of the call.
//!
//! The layer comes after the plan windows: a request for a chain that is not served counts like any other. It refuses
//! every open call with [`Refusal::NotServed`] under its own id, a REST call with [`Refusal::NoChain`], and the
//! handshake of a stream with [`Refusal::NoStream`].
//!
//! ```
//! use rpcgate_core::backend::suite;
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, MethodRule};
//! use rpcgate_core::clock::{ManualClock, Time};
//! use rpcgate_layers::call::served::ServedLayer;
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! const TOY: ChainName = ChainName::new("toy");
//! let caller = Arc::new(suite::caller(1));
//! let clock = Arc::new(ManualClock::at(Time::default()));
//! let layer = ServedLayer::for_chains(|chain| chain == TOY).with_call(clock, move |request: &http::Request<ChainName>| {
//!     Some((caller.clone().into(), CallView::new(*request.body(), "m", MethodRule::UNLISTED)))
//! });
//! let inner = service_fn(async |_: http::Request<ChainName>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let service = layer.layer(inner);
//! let call = async |chain| service.clone().oneshot(http::Request::new(chain)).await.unwrap().into_body();
//! assert_eq!(call(TOY).await, "");
//! assert!(call(ChainName::new("off")).await.ends_with(br#""message":"chain not available at this location"}}"#));
//! # });
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Served as At};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;
use std::fmt;
use std::sync::Arc;

gate_layer! {
    /// Refuses calls for a chain that is not served here.
    ServedLayer, Served
}

impl ServedLayer {
    /// Creates a layer that checks whether the chain of each set is [served](rpcgate_core::chain::Chain::serves) by its
    /// transport. For foreign requests every chain is served.
    pub fn new() -> Self {
        Self::by(Arc::default())
    }

    /// Creates a layer that calls `serves` for the chain of a foreign request. A set of calls still uses its own chain.
    pub fn for_chains(serves: impl Fn(ChainName) -> bool + Send + Sync + 'static) -> Self {
        Self::by(Arc::new(Served { serves: Some(Box::new(serves)), ..Served::default() }))
    }

    /// Creates a layer for stream handshakes, which are refused with an HTTP status instead of a JSON-RPC error.
    pub fn for_handshakes() -> Self {
        Self::by(Arc::new(Served { of_handshakes: true, ..Served::default() }))
    }
}

impl Default for ServedLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy of [`ServedLayer`]. It concerns only sets whose chain is disabled or has no node for their transport.
#[derive(Default)]
pub struct Served {
    /// Reports the enabled chains for foreign requests. A set of calls asks its own chain.
    serves: Option<Box<dyn Fn(ChainName) -> bool + Send + Sync>>,
    /// True for stream handshakes.
    of_handshakes: bool,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

impl CallPolicy for Served {
    type At = At;

    fn concerns(&self, tally: &Tally) -> bool {
        !tally.chain.serves(tally.transport)
    }

    fn decide(&self, call: CallView<'_>, _: &Caller, _: Time) -> Result<(), Refusal> {
        Err(match (self.of_handshakes, call.is_rest) {
            (true, _) => Refusal::NoStream,
            (false, true) => Refusal::NoChain,
            (false, false) => Refusal::NotServed,
        })
    }

    fn decide_foreign(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal> {
        match &self.serves {
            Some(serves) if !serves(call.chain) => self.decide(call, caller, now),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Fixture};
    use rpcgate_core::call::{CallState, Windowed};

    #[tokio::test]
    async fn every_call_for_a_chain_that_is_off_is_refused() {
        for (fixture, refused) in [(Fixture::new(), false), (Fixture::with_chain_off(), true)] {
            let calls = fixture.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#).at::<Windowed>();
            let calls = testing::through(ServedLayer::new(), calls).await;
            for entry in &calls.tally().entries {
                assert_eq!(matches!(entry.state, CallState::Refused(Refusal::NotServed)), refused);
            }
        }
    }
}

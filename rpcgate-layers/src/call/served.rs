//! Whether the chain is on at this gateway and has a node.
//!
//! Stands behind the plan windows: asking for a chain that is not served is a request like any other. Refuses every
//! open call with [`Refusal::NotServed`], each under its own id, and a REST call with [`Refusal::NoChain`].
//!
//! ```
//! use rpcgate_core::{chain::Chain, toy::Toy};
//! use std::sync::Arc;
//!
//! let on = Chain::deployed(Arc::new(Toy));
//! let off = Chain::new(Arc::new(Toy), Default::default(), false, Arc::default());
//! assert!(on.is_served() && !off.is_served());
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Served as At};
use rpcgate_core::caller::Caller;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::{Tally, Transport};

gate_layer! {
    /// Refuses calls for a chain that is not served here.
    ServedLayer, Served
}

impl ServedLayer {
    /// The layer.
    pub fn new() -> Self {
        Self::by(std::sync::Arc::new(Served))
    }
}

impl Default for ServedLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The decision: it concerns only sets for a chain that is off, and refuses those.
#[derive(Clone, Copy, Debug)]
pub struct Served;

impl CallPolicy for Served {
    type At = At;

    fn concerns(&self, tally: &Tally) -> bool {
        !tally.chain.is_served() || (tally.transport == Transport::Http && !tally.chain.facts().https)
    }

    fn decide(&self, call: CallView<'_>, _: &Caller, _: Time) -> Result<(), Refusal> {
        Err(if call.is_rest { Refusal::NoChain } else { Refusal::NotServed })
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

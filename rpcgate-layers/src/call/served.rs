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
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::{Tally, Transport};
use std::fmt;
use std::sync::Arc;

gate_layer! {
    /// Refuses calls for a chain that is not served here.
    ServedLayer, Served
}

impl ServedLayer {
    /// A layer that asks the chain of each set whether it is on. For foreign requests every chain is.
    pub fn new() -> Self {
        Self::by(Arc::default())
    }

    /// A layer that asks `serves` about the chain of a foreign request. A set of calls still knows it of its own chain.
    pub fn for_chains(serves: impl Fn(ChainName) -> bool + Send + Sync + 'static) -> Self {
        Self::by(Arc::new(Served { serves: Some(Box::new(serves)) }))
    }
}

impl Default for ServedLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The decision: it concerns only sets for a chain that is off, and refuses those.
#[derive(Default)]
pub struct Served {
    /// Which chains are on, for foreign requests; a set of calls knows it of its own chain.
    serves: Option<Box<dyn Fn(ChainName) -> bool + Send + Sync>>,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

impl CallPolicy for Served {
    type At = At;

    fn concerns(&self, tally: &Tally) -> bool {
        !tally.chain.is_served() || (tally.transport == Transport::Http && !tally.chain.facts().https)
    }

    fn decide(&self, call: CallView<'_>, _: &Caller, _: Time) -> Result<(), Refusal> {
        Err(if call.is_rest { Refusal::NoChain } else { Refusal::NotServed })
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

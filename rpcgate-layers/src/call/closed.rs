//! Closed methods: what nobody may call, because it controls a node or its wallet or is not offered.
//!
//! Stands behind the budgets, as the specification wants for `trace_*`: the budget is consulted, then the method is
//! refused and nothing is charged. Refuses with [`Refusal::Closed`].
//!
//! ```
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, Flags, MethodRule};
//! use rpcgate_core::clock::Time;
//! use rpcgate_core::refusal::Refusal;
//! use rpcgate_core::backend::suite;
//! use rpcgate_layers::{call::closed::Closed, gate::CallPolicy};
//!
//! let rule = MethodRule { flags: Flags::CLOSED, ..MethodRule::UNLISTED };
//! let call = CallView::new(ChainName::new("toy"), "admin_stop", rule);
//! assert_eq!(Closed.decide(call, &suite::caller(1), Time::default()), Err(Refusal::Closed));
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Opened};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::Flags;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;

gate_layer! {
    /// Refuses calls marked as closed.
    ClosedLayer, Closed
}

impl ClosedLayer {
    /// The layer.
    pub fn new() -> Self {
        Self::by(std::sync::Arc::new(Closed))
    }
}

impl Default for ClosedLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// The decision.
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

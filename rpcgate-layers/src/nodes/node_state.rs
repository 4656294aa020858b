//! Calls that create or use state that exists at one node only, such as a filter.
//!
//! The client gets an id in which the [digits](super::node_digits) of the node precede the node's own id. A call that
//! uses the id goes to that node without the digits, even while the node is drained.

use super::node_digits::NodeDigits;
use rpcgate_core::call::{Call, Payload};
use rpcgate_core::chain::{Chain, Flags};
use rpcgate_core::json::Span;

/// Returns the digits in the id that a call uses, and their span in the body. `None` if the call has no id that names a
/// node.
pub(crate) fn named_node(chain: &Chain, call: &Call, body: &[u8]) -> Option<(NodeDigits, Span)> {
    let Payload::JsonRpc(envelope) = &call.payload else { return None };
    let params = envelope.params?;
    let id = chain.adapter().state_id(call.view(body, chain.name()))?;
    let digits = NodeDigits::of_id(id.of(params.of(body)))?;
    let from = params.start() + id.start() + NodeDigits::AT;
    Some((digits, Span::new(from, from + NodeDigits::LEN)))
}

pub(crate) fn uses_state(call: &Call) -> bool {
    call.rule.flags.has(Flags::USES_STATE)
}

pub(crate) fn makes_state(call: &Call) -> bool {
    call.rule.flags.has(Flags::MAKES_STATE)
}

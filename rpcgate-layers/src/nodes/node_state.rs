//! Calls that make or use something that exists at one node alone, such as a filter.
//!
//! A client gets the id of what it makes with the [digits](super::node_digits) of the node in front of the node's own id.
//! A call that uses the id goes to that node, also while the node is drained, and without the digits.

use super::node_digits::NodeDigits;
use rpcgate_core::call::{Call, Payload};
use rpcgate_core::chain::{Chain, Flags};
use rpcgate_core::json::Span;

/// The digits in the id that a call uses, and their place in the body; `None` if the call has no id that names a node.
pub(crate) fn named_node(chain: &Chain, call: &Call, body: &[u8]) -> Option<(NodeDigits, Span)> {
    let Payload::JsonRpc(envelope) = &call.payload else { return None };
    let params = envelope.params?;
    let id = chain.adapter().state_id(call.view(body, chain.name()))?;
    let digits = NodeDigits::of_id(id.of(params.of(body)))?;
    let from = params.start() + id.start() + NodeDigits::AT;
    Some((digits, Span::new(from, from + NodeDigits::LEN)))
}

/// Whether a call uses something at one node.
pub(crate) fn uses_state(call: &Call) -> bool {
    call.rule.flags.has(Flags::USES_STATE)
}

/// Whether a call makes something at one node.
pub(crate) fn makes_state(call: &Call) -> bool {
    call.rule.flags.has(Flags::MAKES_STATE)
}

//! Calls that create or use state at one node: each use goes to its node, and each new id names its node.

use crate::nodes::Pool;
use crate::nodes::node_state::{makes_state, named_node, uses_state};
use rpcgate_core::call::{AtNode, CallState};
use rpcgate_core::node_try::NodeTries;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply};
use rpcgate_core::tally::{Entries, Tally, Transport};

/// Binds the open calls that use state to the node that has it, and refuses those whose node does not exist.
pub(super) fn bind(pool: &Pool, tally: &mut Tally) {
    let Tally { entries, body, chain, .. } = tally;
    for entry in entries.iter_mut().filter(|entry| entry.is_open() && uses_state(&entry.call)) {
        let named = named_node(chain, &entry.call, body);
        let found = named.and_then(|(digits, name)| {
            let node = pool.named(digits, Transport::Http)?;
            Some(AtNode { node: u16::try_from(node.get()).ok()?, name })
        });
        match found {
            Some(at_node) => entry.call.at_node = Some(Box::new(at_node)),
            None => entry.state = CallState::Refused(Refusal::FilterNotFound),
        }
    }
}

/// Adds the node's digits to the ids in the answers at `indexes`. The node is that of the last of `tries`.
pub(super) fn name_ids(pool: &Pool, entries: &mut Entries, indexes: &[usize], tries: &NodeTries) {
    for index in indexes {
        let Some(entry) = entries.get_mut(*index).filter(|entry| makes_state(&entry.call)) else { continue };
        let CallState::Answered(Reply { form, .. }) = &mut entry.state else { continue };
        let node = tries.answered_by().filter(|(number, _)| *number == pool.number());
        let digits = node.and_then(|(_, index)| pool.digits(index));
        if let Some(named) = digits.zip(form.result()).and_then(|(digits, own)| digits.name(own)) {
            *form = Form::Result(named);
        }
    }
}

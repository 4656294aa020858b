//! One sending of the open calls of a set: the nodes that may get them, their numbers there, and their states if no node
//! answered.
//!
//! Calls that create or use state at one node are bound to it: each use goes to its node, and each new id names its
//! node.

use crate::nodes::node_set::NodeSet;
use crate::nodes::node_state::{makes_state, named_node, uses_state};
use crate::nodes::{NodeIndex, NodeRequestError, Pool};
use crate::transport::h1::NUMBERS;
use rpcgate_core::call::{AtNode, Call, CallState};
use rpcgate_core::node_try::{NodeChoice, NodeTries};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply};
use rpcgate_core::tally::{Entries, Tally, Transport};

/// One sending of the open calls.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) among: NodeSet,
    /// The reason for these nodes, if it is a special one.
    pub(super) choice: Option<NodeChoice>,
    /// True if a node has already received the calls: they are charged in any case.
    pub(super) was_sent: bool,
}

impl Round {
    pub(super) const FIRST: Round = Round { among: NodeSet::ALL, choice: None, was_sent: false };

    pub(super) fn takers(&self, pool: &Pool, call: &Call, body: &[u8]) -> NodeSet {
        let among = match &call.at_node {
            Some(at) => self.among.and(NodeSet::bound(NodeIndex::new(at.node))),
            None if makes_state(call) => self.among.and(pool.nameable()),
            None => self.among,
        };
        if !pool.is_selective() {
            return among;
        }
        among.and(pool.takers(Transport::Http, call.sent(body), call.method(body)))
    }
}

/// Refuses the open calls that no node takes.
pub(super) fn refuse_untaken(pool: &Pool, tally: &mut Tally) {
    let Tally { entries, body, .. } = tally;
    for entry in entries.iter_mut().filter(|entry| entry.is_open()) {
        if Round::FIRST.takers(pool, &entry.call, body).is_empty() {
            entry.state = CallState::Refused(Refusal::Closed);
        }
    }
}

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

/// Adds the node's digits to the ids in the answers to the entries `indexes`. The node is that of the last of
/// `tries`.
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

/// Returns the number of the call at position 0 of a set. It is random, so that a late answer to an earlier call on the
/// same connection is not mistaken for that to this call, and so that no client can know the numbers of others.
pub(super) fn first_index(tally: &Tally) -> usize {
    (tally.request.0 as u32 as usize) * NUMBERS
}

pub(super) fn is_in_set(number: usize, first: usize) -> bool {
    (first..first + NUMBERS).contains(&number)
}

pub(super) fn unanswered(error: NodeRequestError) -> CallState {
    match error {
        NodeRequestError::Fault(fault) => CallState::Failed(fault),
        NodeRequestError::AtLimit => CallState::Refused(Refusal::NodesAtLimit),
        NodeRequestError::Busy => CallState::Refused(Refusal::Overloaded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::caller::RequestId;

    #[test]
    fn numbers_towards_nodes_differ_from_set_to_set() {
        let fixture = Fixture::new();
        let first = |request| {
            let mut tally = fixture.tally();
            tally.request = RequestId(request);
            first_index(&tally)
        };
        assert_eq!((first(0), first(1), first(2)), (0, 128, 256), "a set has at most 100 calls");
    }
}

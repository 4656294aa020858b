use crate::nodes::node_set::NodeSet;
use crate::nodes::node_state::makes_state;
use crate::nodes::{NodeIndex, Pool};
use rpcgate_core::call::{Call, CallState};
use rpcgate_core::node_try::NodeChoice;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::{Tally, Transport};

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

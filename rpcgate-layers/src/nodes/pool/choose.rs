//! Choosing a node where nodes may not get any number of calls, or not for nothing.
//!
//! A node that may not get a call now is no candidate for it. Of those left, the tier of the best health is considered as
//! everywhere, and in it only the nodes that cost least: a node whose monthly budget is used up faster than the month passes costs
//! more than any other. The calls are taken of what the node may get before they are sent.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::health::Grade;
use crate::nodes::node::Node;
use crate::nodes::node_set::NodeSet;
use crate::nodes::spending::SpendingTime;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::NodeChoice;

/// Health, tier and cost: the lesser first.
type Rank = (Grade, (bool, u32), (bool, u64));

impl Pool {
    /// The node for the next calls, of which it counts so many, one of the `candidates`. `None` if there is none, or if none may get
    /// them now.
    pub(super) fn choose<'a, N: AsRef<Node>>(
        &self,
        nodes: &'a [N],
        candidates: Candidates,
        calls: u32,
    ) -> Option<(&'a N, NodeChoice)> {
        if !self.has_allowances {
            return self.rotation.choose(nodes, candidates, || self.clock.elapsed());
        }
        // Another call may take what is left of a node meanwhile: then it has no room when it is looked at again.
        for _ in 0..=nodes.len() {
            let at = SpendingTime::of(&*self.clock);
            let (among, why) = least_costly(nodes, candidates, calls, at);
            let candidates = Candidates { among, ..candidates };
            let (chosen, choice) = self.rotation.choose(nodes, candidates, || at.elapsed())?;
            if chosen.as_ref().take(calls, at) {
                return Some((chosen, why.unwrap_or(choice)));
            }
        }
        None
    }

    /// Why no node was chosen.
    pub(super) fn unchosen<N: AsRef<Node>>(&self, nodes: &[N], candidates: Candidates) -> NodeRequestError {
        let is_any = self.has_allowances && nodes.iter().any(|node| candidates.has(node.as_ref()));
        if is_any { NodeRequestError::AtLimit } else { Fault::unsent(Cause::NoNode).into() }
    }

    /// The nodes that may get so many calls now.
    pub(super) fn with_room<N: AsRef<Node>>(&self, nodes: &[N], calls: u32) -> NodeSet {
        if !self.has_allowances {
            return NodeSet::ALL;
        }
        let at = SpendingTime::of(&*self.clock);
        let nodes = nodes.iter().map(AsRef::<Node>::as_ref);
        nodes.filter(|node| node.has_room(calls, at)).map(|node| node.index).collect()
    }
}

/// The candidates among which the next node is chosen, and why the others are not, if that is for what they may get or cost.
fn least_costly<N: AsRef<Node>>(
    nodes: &[N],
    candidates: Candidates,
    calls: u32,
    at: SpendingTime,
) -> (NodeSet, Option<NodeChoice>) {
    let all = || nodes.iter().map(AsRef::<Node>::as_ref).filter(|node| candidates.has(node));
    let rank = |node: &Node| -> Rank { (node.health.grade(|| at.elapsed()), node.tier(), node.cost(at)) };
    let with_room: NodeSet = all().filter(|node| node.has_room(calls, at)).map(|node| node.index).collect();
    let open = || all().filter(|node| with_room.has(node.index));
    let Some(best) = open().map(rank).min() else {
        all().for_each(|node| node.pass_over(calls, at));
        return (NodeSet::NONE, None);
    };
    let mut why = None;
    for full in all().filter(|node| !with_room.has(node.index)) {
        full.pass_over(calls, at);
        let (grade, tier, _) = rank(full);
        if (grade, tier) <= (best.0, best.1) {
            why = Some(NodeChoice::Room);
        }
    }
    if best.0 != Grade::Healthy {
        return (with_room, why);
    }
    let is_best = |node: &&Node| rank(node) == best;
    let is_dearer = |node: &Node| {
        let (grade, tier, cost) = rank(node);
        (grade, tier) == (best.0, best.1) && cost > best.2
    };
    if open().any(is_dearer) {
        why = Some(NodeChoice::Cheaper);
    }
    (open().filter(is_best).map(|node| node.index).collect(), why)
}

//! The calls of clients as they arrive at the nodes of one chain, and what must be true of that.
//!
//! Only calls whose parameters no other call has are followed: every arrival of one is a try of it.

use crate::Duration;
use crate::nodes::NODES;
use std::collections::HashMap;

/// What the pool of the chain may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolRules {
    /// Nodes that may get a transaction.
    pub(crate) write_nodes: usize,
    /// How often a read may arrive: its tries, and what comes in place of one that a closed connection has taken.
    pub(crate) tries: usize,
    /// For so many calls one request may be sent again; `None`: that is not counted.
    pub(crate) calls_per_repeat: Option<u64>,
    /// For so many calls one may be sent to a second node while the first works on it, and this many besides; `None`: none may.
    pub(crate) calls_per_hedge: Option<(u64, u64)>,
}

/// A call that no other equals.
#[derive(Debug)]
struct UniqueCall {
    begun: Duration,
    is_write: bool,
    /// The nodes that have got it.
    nodes: Vec<usize>,
    /// Nodes that work on it.
    working: usize,
    is_hedged: bool,
}

/// What a node has done that makes the gateway try it out before it relies on it again.
#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    /// Since when; `None`: it has not failed.
    since: Option<Duration>,
    /// The calls that another node got as well because this one was tried out.
    trials: u64,
}

/// All of them in one life of the process.
#[derive(Debug)]
pub(crate) struct NodeArrivals {
    rules: PoolRules,
    calls: HashMap<String, UniqueCall>,
    /// Since when a node is drained.
    drained: [Option<Duration>; NODES],
    failing: [Failing; NODES],
    /// All calls that clients have made, also those that are not followed.
    asked: u64,
    pub(crate) repeats: u64,
    pub(crate) hedges: u64,
    pub(crate) writes: u64,
    pub(crate) broken: Vec<String>,
}

impl NodeArrivals {
    pub(crate) fn new(rules: PoolRules) -> Self {
        NodeArrivals {
            rules,
            calls: HashMap::new(),
            drained: [None; NODES],
            failing: Default::default(),
            asked: 0,
            repeats: 0,
            hedges: 0,
            writes: 0,
            broken: Vec::new(),
        }
    }

    /// A client makes a call.
    pub(crate) fn ask(&mut self) {
        self.asked += 1;
    }

    /// A client makes this call, which no other equals.
    pub(crate) fn ask_unique(&mut self, call: String, is_write: bool, now: Duration) {
        self.ask();
        let unique = UniqueCall { begun: now, is_write, nodes: Vec::new(), working: 0, is_hedged: false };
        assert!(self.calls.insert(call, unique).is_none(), "it has an equal");
    }

    /// Only these nodes are drained from now on.
    pub(crate) fn drain(&mut self, drained: &[usize], now: Duration) {
        for (node, since) in self.drained.iter_mut().enumerate() {
            *since = if drained.contains(&node) { since.or(Some(now)) } else { None };
        }
    }

    /// A node fails a request or a connection.
    pub(crate) fn fail(&mut self, node: usize, now: Duration) {
        self.failing[node].since.get_or_insert(now);
    }

    /// Whether a second node may have a call of this node because the node is tried out after a failure: once in a second.
    fn takes_trial(&mut self, node: usize, now: Duration) -> bool {
        let Failing { since, trials } = &mut self.failing[node];
        let takes = since.is_some_and(|since| *trials < now.saturating_sub(since).as_secs());
        *trials += u64::from(takes);
        takes
    }

    /// A request with these calls has come to a node.
    pub(crate) fn arrive(&mut self, node: usize, calls: &[String], now: Duration) {
        let (mut is_repeat, mut is_hedge) = (false, false);
        let mut on_trial = None;
        let mut found = Vec::new();
        for name in calls {
            let Some(call) = self.calls.get_mut(name) else {
                found.push(format!("{name}: no client has made this call"));
                continue;
            };
            if self.drained[node].is_some_and(|since| call.begun > since) {
                found.push(format!("{name}: a new call for a drained node, {node}"));
            }
            if call.is_write {
                self.writes += u64::from(call.nodes.is_empty());
                if call.nodes.contains(&node) || call.nodes.len() >= self.rules.write_nodes {
                    found.push(format!("{name}: written to {node} after {:?}", call.nodes));
                }
            } else {
                is_repeat |= !call.nodes.is_empty();
                // A hedged call may be tried again while its second node works on it.
                if call.working > 0 && !call.is_hedged {
                    (is_hedge, call.is_hedged) = (true, true);
                    on_trial = call.nodes.last().copied();
                }
                if call.nodes.len() >= self.rules.tries || call.working > 1 {
                    found.push(format!("{name}: {} at once, and {:?} before", call.working, call.nodes));
                }
            }
            call.nodes.push(node);
            call.working += 1;
        }
        // It draws on the budget of repeats, and not on that of hedges.
        is_hedge = is_hedge && !on_trial.is_some_and(|node| self.takes_trial(node, now));
        self.repeats += u64::from(is_repeat);
        self.hedges += u64::from(is_hedge);
        // A call may earn its part of a repeat before the next one is made.
        if is_repeat
            && let Some(calls) = self.rules.calls_per_repeat
            && self.repeats > 1 + self.asked / calls
        {
            found.push(format!("{} requests were sent again for {} calls", self.repeats, self.asked));
        }
        if is_hedge {
            let most = self.rules.calls_per_hedge.map_or(0, |(calls, saved)| 1 + saved + self.asked / calls);
            if self.hedges > most {
                found.push(format!("{} hedges for {} calls: {calls:?}", self.hedges, self.asked));
            }
        }
        self.broken.append(&mut found);
    }

    /// The node has answered them, or has closed the connection, or the gateway has.
    pub(crate) fn leave(&mut self, calls: &[String]) {
        for name in calls {
            if let Some(call) = self.calls.get_mut(name) {
                call.working -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PoolRules =
        PoolRules { write_nodes: 1, tries: 3, calls_per_repeat: None, calls_per_hedge: None };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Reads `r0` to `r9` and the transaction `w`, made at the second 5.
    fn asked(rules: PoolRules) -> NodeArrivals {
        let mut arrivals = NodeArrivals::new(rules);
        (0..10).for_each(|number| arrivals.ask_unique(format!("r{number}"), false, at(5)));
        arrivals.ask_unique("w".into(), true, at(5));
        arrivals
    }

    /// A request that a node has answered.
    fn served(arrivals: &mut NodeArrivals, node: usize, calls: &[&str]) {
        let calls: Vec<_> = calls.iter().map(|call| (*call).to_owned()).collect();
        arrivals.arrive(node, &calls, at(5));
        arrivals.leave(&calls);
    }

    #[test]
    fn a_transaction_that_is_written_twice_is_found_at_the_same_node_and_at_another() {
        for second in [0, 1] {
            let mut arrivals = asked(RULES);
            served(&mut arrivals, 0, &["w"]);
            assert_eq!(arrivals.broken.len(), 0);
            served(&mut arrivals, second, &["w"]);
            assert_eq!(arrivals.broken.len(), 1);
        }
        let mut arrivals = asked(PoolRules { write_nodes: 2, ..RULES });
        [0, 1].into_iter().for_each(|node| served(&mut arrivals, node, &["w"]));
        assert_eq!((arrivals.broken.len(), arrivals.writes), (0, 1), "two nodes may get it");
        served(&mut arrivals, 2, &["w"]);
        assert_eq!(arrivals.broken.len(), 1);
        let mut arrivals = asked(PoolRules { write_nodes: 2, ..RULES });
        [0, 0].into_iter().for_each(|node| served(&mut arrivals, node, &["w"]));
        assert_eq!(arrivals.broken.len(), 1, "and each of them once");
    }

    #[test]
    fn a_read_that_is_tried_too_often_is_found() {
        let mut arrivals = asked(RULES);
        (0..3).for_each(|node| served(&mut arrivals, node, &["r0", "r1"]));
        assert_eq!((arrivals.broken.len(), arrivals.repeats), (0, 2));
        served(&mut arrivals, 0, &["r1"]);
        assert_eq!(arrivals.broken.len(), 1);
    }

    #[test]
    fn repeats_beyond_the_budget_are_found() {
        let mut arrivals = asked(PoolRules { calls_per_repeat: Some(5), ..RULES });
        (0..10).for_each(|number| served(&mut arrivals, 0, &[&format!("r{number}")]));
        for (number, broken) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            served(&mut arrivals, 1, &[&format!("r{number}")]);
            assert_eq!(arrivals.broken.len(), broken, "eleven calls earn two, and one is on its way");
        }
    }

    #[test]
    fn hedges_are_found_where_there_may_be_none_and_beyond_their_share() {
        let hedged = |arrivals: &mut NodeArrivals, call: &str| {
            let call = [call.to_owned()];
            [0, 1].into_iter().for_each(|node| arrivals.arrive(node, &call, at(9)));
            arrivals.leave(&call);
            arrivals.leave(&call);
        };
        let mut arrivals = asked(RULES);
        hedged(&mut arrivals, "r0");
        assert_eq!((arrivals.broken.len(), arrivals.hedges), (1, 1));
        let mut arrivals = asked(RULES);
        arrivals.fail(0, at(7));
        for (number, broken) in [(0, 0), (1, 0), (2, 1)] {
            hedged(&mut arrivals, &format!("r{number}"));
            let found = arrivals.broken.len();
            assert_eq!(found, broken, "two seconds after its failure a node was tried out twice at most");
        }
        let mut arrivals = asked(PoolRules { calls_per_hedge: Some((10, 1)), ..RULES });
        for (number, broken) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            hedged(&mut arrivals, &format!("r{number}"));
            assert_eq!(
                arrivals.broken.len(),
                broken,
                "eleven calls earn one, one was saved, one is on its way"
            );
        }
        let mut arrivals = asked(PoolRules { calls_per_hedge: Some((1, 9)), ..RULES });
        (0..3).for_each(|node| arrivals.arrive(node, &["r0".to_owned()], at(9)));
        assert_eq!(arrivals.broken.len(), 1, "never three nodes at once");
    }

    #[test]
    fn a_new_call_for_a_drained_node_is_found_and_one_that_was_made_before_is_not() {
        let mut arrivals = asked(RULES);
        arrivals.drain(&[1], at(5));
        served(&mut arrivals, 1, &["r0"]);
        arrivals.ask_unique("later".into(), false, at(6));
        served(&mut arrivals, 0, &["later"]);
        assert_eq!(arrivals.broken.len(), 0);
        arrivals.drain(&[1, 2], at(7));
        served(&mut arrivals, 1, &["later"]);
        assert_eq!(arrivals.broken.len(), 1, "it is drained since the second 5");
        arrivals.drain(&[], at(8));
        served(&mut arrivals, 1, &["later"]);
        assert_eq!(arrivals.broken.len(), 1);
    }

    #[test]
    fn a_call_that_no_client_has_made_is_found() {
        let mut arrivals = asked(RULES);
        served(&mut arrivals, 0, &["r0", "somebody's"]);
        assert_eq!(arrivals.broken.len(), 1);
    }
}

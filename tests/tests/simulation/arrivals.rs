//! The calls of clients as they arrive at the nodes of one chain, and the rules for them.
//!
//! Only calls with unique parameters are followed: every arrival of one is a try of it.

use crate::Duration;
use crate::nodes::NODES;
use std::collections::HashMap;

/// The rules for the pool of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolRules {
    /// The number of nodes that may get a transaction.
    pub(crate) write_nodes: usize,
    /// The maximum arrivals of a read: its tries, and the repeats of tries that a closed connection has lost.
    pub(crate) tries: usize,
    /// One request may be sent again for this number of calls. `None`: not limited.
    pub(crate) calls_per_repeat: Option<u64>,
    /// One call may be hedged for this number of calls, in addition to a fixed number. `None`: hedges are not allowed.
    pub(crate) calls_per_hedge: Option<(u64, u64)>,
}

#[derive(Debug)]
struct UniqueCall {
    begun: Duration,
    is_write: bool,
    nodes: Vec<usize>,
    working: usize,
    /// True if a second node received it while the first worked on it.
    has_second: bool,
}

/// The gateway's counts of reads that were sent to a second node while the first worked on them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportedSeconds {
    pub(crate) hedges: u64,
    /// Trials of a node that had failed.
    pub(crate) trials: u64,
    /// Reads sent because of a slow-try limit that no pool here has.
    pub(crate) slow: u64,
}

/// All arrivals in one life of the process.
#[derive(Debug)]
pub(crate) struct NodeArrivals {
    rules: PoolRules,
    calls: HashMap<String, UniqueCall>,
    /// The time since which each node is drained.
    drained: [Option<Duration>; NODES],
    /// The time since which each node has failed.
    failing: [Option<Duration>; NODES],
    /// The number of all client calls, followed or not.
    asked: u64,
    pub(crate) repeats: u64,
    /// The number of reads that came to another node while the first worked on them.
    pub(crate) seconds: u64,
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
            seconds: 0,
            writes: 0,
            broken: Vec::new(),
        }
    }

    pub(crate) fn ask(&mut self) {
        self.asked += 1;
    }

    /// Adds a client's call that is followed.
    pub(crate) fn ask_unique(&mut self, call: String, is_write: bool, now: Duration) {
        self.ask();
        let unique = UniqueCall { begun: now, is_write, nodes: Vec::new(), working: 0, has_second: false };
        assert!(self.calls.insert(call, unique).is_none(), "it has an equal");
    }

    /// Drains exactly these nodes.
    pub(crate) fn drain(&mut self, drained: &[usize], now: Duration) {
        for (node, since) in self.drained.iter_mut().enumerate() {
            *since = if drained.contains(&node) { since.or(Some(now)) } else { None };
        }
    }

    /// Records that a node failed a request or a connection.
    pub(crate) fn fail(&mut self, node: usize, now: Duration) {
        self.failing[node].get_or_insert(now);
    }

    /// Compares the reads that came to two nodes at once with the gateway's own counts until `now`.
    pub(crate) fn compare(&mut self, reported: ReportedSeconds, now: Duration) {
        let ReportedSeconds { hedges, trials, slow } = reported;
        if slow > 0 || self.seconds > hedges + trials {
            self.broken.push(format!("{} reads came to a second node: {reported:?}", self.seconds));
        }
        let most = self.rules.calls_per_hedge.map_or(0, |(calls, saved)| 1 + saved + self.asked / calls);
        if hedges > most {
            self.broken.push(format!("{hedges} hedges for {} calls", self.asked));
        }
        // A node gets at most one trial a second, and the first one a second after it has failed.
        let since = |failed: &Option<Duration>| failed.map_or(0, |since| now.saturating_sub(since).as_secs());
        let most: u64 = self.failing.iter().map(since).sum();
        if trials > most {
            self.broken.push(format!("{trials} trials in {most} seconds of failing nodes"));
        }
    }

    /// Records a request with these calls at a node.
    pub(crate) fn arrive(&mut self, node: usize, calls: &[String]) {
        let mut is_repeat = false;
        let mut is_second = false;
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
                // It may be tried again while its second node works on it.
                if call.working > 0 && !call.has_second {
                    call.has_second = true;
                    is_second = true;
                }
                if call.nodes.len() >= self.rules.tries || call.working > 1 {
                    found.push(format!("{name}: {} at once, and {:?} before", call.working, call.nodes));
                }
            }
            call.nodes.push(node);
            call.working += 1;
        }
        self.repeats += u64::from(is_repeat);
        self.seconds += u64::from(is_second);
        // A call may earn its part of a repeat before the next one is made.
        if is_repeat
            && let Some(calls) = self.rules.calls_per_repeat
            && self.repeats > 1 + self.asked / calls
        {
            found.push(format!("{} requests were sent again for {} calls", self.repeats, self.asked));
        }
        self.broken.append(&mut found);
    }

    /// Records the end of a request: the node has answered, or one side has closed the connection.
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

    /// Returns arrivals with reads `r0` to `r9` and the transaction `w`, made at second 5.
    fn asked(rules: PoolRules) -> NodeArrivals {
        let mut arrivals = NodeArrivals::new(rules);
        (0..10).for_each(|number| arrivals.ask_unique(format!("r{number}"), false, at(5)));
        arrivals.ask_unique("w".into(), true, at(5));
        arrivals
    }

    /// Records a request that a node has answered.
    fn served(arrivals: &mut NodeArrivals, node: usize, calls: &[&str]) {
        let calls: Vec<_> = calls.iter().map(|call| (*call).to_owned()).collect();
        arrivals.arrive(node, &calls);
        arrivals.leave(&calls);
    }

    // Shows (Reliability).
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

    // Shows (Reliability).
    #[test]
    fn a_read_that_is_tried_too_often_is_found() {
        let mut arrivals = asked(RULES);
        (0..3).for_each(|node| served(&mut arrivals, node, &["r0", "r1"]));
        assert_eq!((arrivals.broken.len(), arrivals.repeats), (0, 2));
        served(&mut arrivals, 0, &["r1"]);
        assert_eq!(arrivals.broken.len(), 1);
    }

    // Shows (Reliability).
    #[test]
    fn repeats_beyond_the_budget_are_found() {
        let mut arrivals = asked(PoolRules { calls_per_repeat: Some(5), ..RULES });
        (0..10).for_each(|number| served(&mut arrivals, 0, &[&format!("r{number}")]));
        for (number, broken) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            served(&mut arrivals, 1, &[&format!("r{number}")]);
            assert_eq!(arrivals.broken.len(), broken, "eleven calls earn two, and one is on its way");
        }
    }

    // Shows (Reliability).
    #[test]
    fn a_read_at_two_nodes_is_found_unless_the_gateway_has_reported_it() {
        let twice = |arrivals: &mut NodeArrivals, call: &str| {
            let call = [call.to_owned()];
            [0, 1].into_iter().for_each(|node| arrivals.arrive(node, &call));
            arrivals.leave(&call);
            arrivals.leave(&call);
        };
        let reported = |hedges, trials| ReportedSeconds { hedges, trials, slow: 0 };
        let hedging = PoolRules { calls_per_hedge: Some((10, 1)), ..RULES };
        for (reported, broken) in
            [(reported(2, 0), 0), (reported(1, 0), 1), (ReportedSeconds { slow: 1, ..reported(2, 0) }, 1)]
        {
            let mut arrivals = asked(hedging);
            twice(&mut arrivals, "r0");
            twice(&mut arrivals, "r1");
            arrivals.compare(reported, at(9));
            assert_eq!((arrivals.seconds, arrivals.broken.len()), (2, broken), "{reported:?}");
        }
        let mut arrivals = asked(RULES);
        (0..3).for_each(|node| arrivals.arrive(node, &["r0".to_owned()]));
        assert_eq!(arrivals.broken.len(), 1, "never three nodes at once");
    }

    // Shows (Reliability).
    #[test]
    fn hedges_beyond_their_share_and_trials_of_nodes_that_have_not_failed_are_found() {
        let broken = |rules, failed: Option<u64>, hedges, trials| {
            let mut arrivals = asked(rules);
            if let Some(failed) = failed {
                arrivals.fail(0, at(failed));
            }
            arrivals.compare(ReportedSeconds { hedges, trials, slow: 0 }, at(9));
            arrivals.broken.len()
        };
        assert_eq!((broken(RULES, None, 0, 0), broken(RULES, None, 1, 0)), (0, 1));
        let hedging = PoolRules { calls_per_hedge: Some((10, 1)), ..RULES };
        assert_eq!(broken(hedging, None, 3, 0), 0, "eleven calls earn one, one was saved, one is on its way");
        assert_eq!(broken(hedging, None, 4, 0), 1);
        assert_eq!((broken(RULES, None, 0, 1), broken(RULES, Some(7), 0, 2)), (1, 0));
        assert_eq!(broken(RULES, Some(7), 0, 3), 1, "one in each second since it failed");
    }

    // Shows (Reliability).
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

    // Shows (Reliability).
    #[test]
    fn a_call_that_no_client_has_made_is_found() {
        let mut arrivals = asked(RULES);
        served(&mut arrivals, 0, &["r0", "somebody's"]);
        assert_eq!(arrivals.broken.len(), 1);
    }
}

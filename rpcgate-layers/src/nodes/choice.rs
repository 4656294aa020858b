//! The choice of the node for the next call.

use super::health::Grade;
use super::node::{Node, NodeIndex};
use super::node_set::NodeSet;
use super::usefulness::MethodIndex;
use rpcgate_core::node_try::NodeChoice;
use rpcgate_core::tally::Transport;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The nodes from which one is chosen. A node on another network is never a candidate. A drained node is a candidate
/// only if it alone has the state that the call uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates {
    pub(super) among: NodeSet,
    pub(super) avoid: [Option<NodeIndex>; 2],
    pub(super) kind: CallKind,
}

/// The transport and the method of a call, for which each node has its own statistics.
pub(super) type CallKind = (Transport, MethodIndex);

impl Candidates {
    pub(super) fn has(self, node: &Node) -> bool {
        let is_usable = !node.is_out() || (self.among.is_bound() && !node.network.is_wrong());
        self.among.has(node.index) && !self.avoid.contains(&Some(node.index)) && is_usable
    }
}

impl From<[Option<NodeIndex>; 2]> for Candidates {
    /// Returns all nodes except `avoid`, for calls over HTTP.
    fn from(avoid: [Option<NodeIndex>; 2]) -> Self {
        Candidates { among: NodeSet::ALL, avoid, kind: (Transport::Http, MethodIndex::OTHER) }
    }
}

/// A round-robin counter, so that equally busy nodes take turns.
#[derive(Debug, Default)]
pub(super) struct Rotation(AtomicUsize);

impl Rotation {
    /// Returns the node for the next call, one of the `candidates`, and the reason for the choice.
    ///
    /// If healthy nodes exist, the choice is among those of the lowest priority number; archives come after all others.
    /// It compares two of them, next in turn, and takes the one that is likely to answer sooner. If none is healthy, it
    /// does the same with the doubtful ones. If none of those is left, it takes the node that is least behind. If the
    /// gateway backs off from all nodes, it takes the one whose backoff ends first.
    ///
    /// `nodes` are nodes, or the state of each node for one transport.
    pub(super) fn choose<'a, N: AsRef<Node>>(
        &self,
        nodes: &'a [N],
        candidates: impl Into<Candidates>,
        now: impl Fn() -> Duration,
    ) -> Option<(&'a N, NodeChoice)> {
        let candidates = candidates.into();
        let allowed = |node: &&N| candidates.has(node.as_ref());
        if let [only] = nodes {
            return Some(only).filter(allowed).map(|only| (only, NodeChoice::Only));
        }
        let kind = candidates.kind;
        let grade = |node: &N| node.as_ref().health.grade(kind, &now);
        let rank = |node: &N| (grade(node), node.as_ref().tier());
        let (best, tier) = nodes.iter().filter(allowed).map(rank).min()?;
        match best {
            Grade::Healthy | Grade::Doubtful => {
                self.of_equals(nodes, kind, |node| allowed(node) && rank(node) == (best, tier))
            }
            Grade::Unfit => {
                let unfit = nodes.iter().filter(|node| allowed(node) && grade(node) == best);
                let least = unfit.min_by_key(|node| {
                    let node = node.as_ref();
                    (node.health.behind(), node.tier(), expected_wait(node, kind))
                });
                least.map(|least| (least, NodeChoice::LeastBehind))
            }
            Grade::BackedOff => {
                let now = now();
                let first = nodes
                    .iter()
                    .filter(allowed)
                    .min_by_key(|node| node.as_ref().health.by(kind.0).remaining(now));
                first.map(|first| (first, NodeChoice::FirstBack))
            }
        }
        // The health of a node may have changed in the meantime.
        .or_else(|| nodes.iter().find(allowed).map(|node| (node, NodeChoice::Turn)))
    }

    fn of_equals<'a, N: AsRef<Node>>(
        &self,
        nodes: &'a [N],
        kind: CallKind,
        usable: impl Fn(&&'a N) -> bool,
    ) -> Option<(&'a N, NodeChoice)> {
        let turn = self.0.fetch_add(1, Relaxed);
        let nth = |n: usize| nodes.iter().filter(&usable).nth(n);
        let count = nodes.iter().filter(&usable).count();
        if count < 2 {
            return nth(0).map(|node| (node, NodeChoice::OnlyHealthy));
        }
        // With more than two nodes, the distance to the second of the pair changes from turn to turn. If it were always
        // the same neighbour, that one would get the whole load of a node that falls behind.
        let first = turn % count;
        let step = 1 + (turn / count) % (count - 1);
        match (nth(first), nth((first + step) % count)) {
            (Some(first), Some(second)) if answers_sooner(second.as_ref(), first.as_ref(), kind) => {
                Some((second, NodeChoice::Sooner))
            }
            (first, second) => first.or(second).map(|node| (node, NodeChoice::Turn)),
        }
    }
}

/// Returns the expected time until a node has answered one more call: (calls in flight + 1) × expected latency. `None`
/// without a measured latency.
fn expected_wait(node: &Node, (transport, method): CallKind) -> Option<u64> {
    let expected = node.health.by(transport).usefulness().expected(method)?;
    Some((node.in_flight.load(Relaxed) as u64 + 1).saturating_mul(expected))
}

/// Reports whether `second` is likely to answer clearly sooner than `first`. If a node has no measured latency, only
/// the calls in flight count.
fn answers_sooner(second: &Node, first: &Node, kind: CallKind) -> bool {
    match (expected_wait(second, kind), expected_wait(first, kind)) {
        (Some(second), Some(first)) => is_clearly_less(second, first),
        _ => {
            let calls = |node: &Node| node.in_flight.load(Relaxed) as u64 + 1;
            is_clearly_less(calls(second), calls(first))
        }
    }
}

/// Compares with a margin of 20 %: small differences of latency are no reason to skip a turn.
fn is_clearly_less(one: u64, other: u64) -> bool {
    one.saturating_mul(5) < other.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::NodeDrains;
    use crate::nodes::config::NodeConfig;
    use rpcgate_core::adapter::NodeStatus;
    use rpcgate_core::chain::ChainName;
    use std::sync::Arc;

    fn nodes(count: usize) -> Vec<Arc<Node>> {
        let node = |index| {
            let config = NodeConfig::new("http://127.0.0.1:1".parse().unwrap());
            Node::new(index, config)
        };
        (0..count).map(node).collect()
    }

    fn counts(rotation: &Rotation, nodes: &[Arc<Node>], turns: usize) -> Vec<usize> {
        let mut counts = vec![0; nodes.len()];
        for _ in 0..turns {
            let (node, _) = rotation.choose(nodes, [None, None], || Duration::ZERO).unwrap();
            counts[node.index.get()] += 1;
        }
        counts
    }

    #[test]
    fn nodes_that_are_equally_busy_take_turns() {
        for count in 1..6 {
            let nodes = nodes(count);
            assert_eq!(counts(&Rotation::default(), &nodes, count * 10), vec![10; count]);
        }
    }

    #[test]
    fn the_busiest_node_is_avoided() {
        for count in 2..6 {
            let nodes = nodes(count);
            nodes[0].in_flight.store(9, Relaxed);
            assert_eq!(counts(&Rotation::default(), &nodes, 60)[0], 0, "{count}");
        }
    }

    #[test]
    fn a_backed_off_node_gets_no_calls_until_its_backoff_ends() {
        let nodes = nodes(3);
        nodes[1].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        let rotation = Rotation::default();
        let asked =
            |now| (0..30).any(|_| rotation.choose(&nodes, [None, None], || now).unwrap().0.index.get() == 1);
        assert!(!asked(Duration::from_millis(999)));
        assert!(asked(Duration::from_secs(1)));
    }

    #[test]
    fn if_all_are_backed_off_the_first_to_return_is_used() {
        let nodes = nodes(3);
        for (node, at) in nodes.iter().zip([30, 10, 20]) {
            node.health.by(Transport::Http).record_unreachable(Duration::from_millis(at));
        }
        let choice = |avoid| {
            Rotation::default()
                .choose(&nodes, avoid, || Duration::from_millis(30))
                .map(|(node, _)| node.index.get())
        };
        assert_eq!(choice([None, None]), Some(1));
        assert_eq!(choice([Some(NodeIndex(1)), None]), Some(2));
    }

    fn asked(nodes: &[Arc<Node>]) -> Vec<usize> {
        let counts = counts(&Rotation::default(), nodes, 60);
        (0..nodes.len()).filter(|n| counts[*n] > 0).collect()
    }

    fn tiers(priorities: &[u32]) -> Vec<Arc<Node>> {
        let node = |(index, priority): (usize, &u32)| {
            let config =
                NodeConfig { priority: *priority, ..NodeConfig::new("http://127.0.0.1:1".parse().unwrap()) };
            Node::new(index, config)
        };
        priorities.iter().enumerate().map(node).collect()
    }

    #[test]
    fn a_fallback_is_used_only_as_a_fallback() {
        let nodes = tiers(&[5, 0, 0, 9]);
        assert_eq!(asked(&nodes), [1, 2]);
        nodes[1].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        assert_eq!(asked(&nodes), [2]);
        nodes[2].health.record_probe(Some(NodeStatus::at(0)));
        assert_eq!(asked(&nodes), [0], "one that is well before one that is not, whatever their tiers");
        nodes[0].health.record_probe(Some(NodeStatus::at(0)));
        assert_eq!(asked(&nodes), [3]);
    }

    #[test]
    fn an_archive_ranks_after_all_healthy_nodes_and_before_an_unhealthy_one() {
        let node = |(index, (is_archive, priority))| {
            let config = NodeConfig::new("http://127.0.0.1:1".parse().unwrap()).with_archive(is_archive);
            Node::new(index, NodeConfig { priority, ..config })
        };
        let nodes: Vec<_> = [(true, 0), (false, 9), (true, 0)].into_iter().enumerate().map(node).collect();
        assert_eq!(asked(&nodes), [1]);
        nodes[1].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        assert_eq!(asked(&nodes), [0, 2]);
    }

    // Shows (Nodes and cache): A drained node gets no new call and no new stream, and its streams end with 1012.
    #[test]
    fn only_a_candidate_is_chosen_and_never_a_drained_node() {
        let drains = NodeDrains::default();
        let node = |index: usize| {
            let config = NodeConfig::new(format!("http://127.0.0.1:{}", index + 1).parse().unwrap());
            let drain = drains.of(ChainName::new("toy"), &config.name().to_string());
            Node::new(index, config.with_drain(drain))
        };
        let nodes: Vec<_> = (0..3).map(node).collect();
        let some = |places: &[usize]| Candidates {
            among: places.iter().map(|place| NodeIndex(*place)).collect(),
            ..Candidates::from([None, None])
        };
        let chosen = |nodes: &[Arc<Node>], candidates| {
            let chosen = Rotation::default().choose(nodes, candidates, || Duration::ZERO);
            chosen.map(|(node, _)| node.index.get())
        };
        for place in 0..3 {
            assert_eq!(chosen(&nodes, some(&[place])), Some(place));
        }
        nodes[2].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        assert_eq!(chosen(&nodes, some(&[2])), Some(2), "the only one that takes the call");
        assert_eq!(chosen(&nodes, some(&[])), None);
        drains.set([("toy".to_owned(), "http://127.0.0.1:1".to_owned())].into());
        assert_eq!(chosen(&nodes, some(&[0, 1])), Some(1));
        assert_eq!((chosen(&nodes, some(&[0])), chosen(&nodes[..1], some(&[0]))), (None, None));
        drains.set([].into());
        assert_eq!(chosen(&nodes[..1], some(&[0])), Some(0));
    }

    #[test]
    fn the_node_least_behind_is_used_if_none_is_healthy() {
        let nodes = nodes(3);
        for (node, height) in nodes.iter().zip([80, 90, 70]) {
            node.health.record_probe(Some(NodeStatus::at(height)));
            node.health.compare(100, 5);
        }
        assert_eq!(asked(&nodes), [1]);
        nodes[0].health.record_probe(Some(NodeStatus::at(100).with_syncing(true)));
        nodes[1].health.record_probe(None);
        nodes[1].health.record_probe(None);
        assert_eq!(asked(&nodes), [2]);
    }

    #[test]
    fn the_faster_of_two_is_used_and_a_small_difference_does_not_count() {
        let nodes = nodes(2);
        for (node, millis) in nodes.iter().zip([10, 11]) {
            node.health.by(Transport::Http).usefulness().record_latency(Duration::from_millis(millis));
        }
        assert_eq!(counts(&Rotation::default(), &nodes, 60), [30, 30]);
        (0..20).for_each(|_| {
            nodes[1].health.by(Transport::Http).usefulness().record_latency(Duration::from_millis(40));
        });
        assert_eq!(asked(&nodes), [0]);
        nodes[0].in_flight.store(9, Relaxed);
        assert_eq!(asked(&nodes), [1], "ten calls at 10 ms are more than one at 40");
    }

    fn usefulness(node: &Node) -> &crate::nodes::usefulness::Usefulness {
        node.health.by(Transport::Http).usefulness()
    }

    // Shows (Nodes and cache).
    #[test]
    fn an_unknown_node_takes_its_turn_and_no_more() {
        let nodes = nodes(2);
        usefulness(&nodes[0]).record_latency(Duration::from_millis(5));
        assert_eq!(counts(&Rotation::default(), &nodes, 60), [30, 30]);
    }

    #[test]
    fn a_failing_node_is_replaced_by_a_slower_one_or_a_fallback() {
        let nodes = nodes(2);
        usefulness(&nodes[0]).record_latency(Duration::from_millis(1));
        usefulness(&nodes[1]).record_latency(Duration::from_millis(200));
        assert_eq!(asked(&nodes), [0]);
        (0..2).for_each(|_| usefulness(&nodes[0]).record_failed());
        assert_eq!(asked(&nodes), [1]);
        let tiers = tiers(&[0, 1]);
        (0..2).for_each(|_| usefulness(&tiers[0]).record_failed());
        assert_eq!(asked(&tiers), [1], "a doubtful node comes after a fallback that is well");
        (0..2).for_each(|_| usefulness(&tiers[1]).record_failed());
        assert_eq!(asked(&tiers), [0], "if all are doubtful, the order is as if none were");
    }

    #[test]
    fn an_account_is_that_of_one_transport_and_one_method() {
        static NAMES: [&str; 2] = ["this_method", "that_method"];
        let nodes = nodes(2);
        let asked = |transport, method| {
            let kind = (transport, MethodIndex::of(method));
            let candidates = Candidates { kind, ..Candidates::from([None, None]) };
            let rotation = Rotation::default();
            let asked = (0..20)
                .map(|_| rotation.choose(&nodes, candidates, || Duration::ZERO).unwrap().0.index.get());
            asked.collect::<std::collections::BTreeSet<_>>().len()
        };
        (0..2).for_each(|_| nodes[0].health.by(Transport::Grpc).usefulness().record_failed());
        assert_eq!((asked(Transport::Http, None), asked(Transport::Grpc, None)), (2, 1));
        (0..2).for_each(|_| usefulness(&nodes[0]).record_method_failed(MethodIndex::of(Some(NAMES[0]))));
        assert_eq!((asked(Transport::Http, Some(NAMES[0])), asked(Transport::Http, Some(NAMES[1]))), (1, 2));
    }

    #[test]
    fn an_avoided_node_is_never_used() {
        let two = nodes(2);
        for _ in 0..10 {
            let choice = Rotation::default().choose(&two, [Some(NodeIndex(0)), None], || Duration::ZERO);
            assert_eq!(choice.map(|(node, _)| node.index.get()), Some(1));
        }
        assert!(
            Rotation::default()
                .choose(&two, [Some(NodeIndex(0)), Some(NodeIndex(1))], || Duration::ZERO)
                .is_none()
        );
        assert!(
            Rotation::default().choose(&nodes(1), [None, Some(NodeIndex(0))], || Duration::ZERO).is_none()
        );
        assert!(Rotation::default().choose::<Arc<Node>>(&[], [None, None], || Duration::ZERO).is_none());
    }

    #[test]
    fn the_reason_for_a_choice_is_the_one_that_decided() {
        let why = |nodes: &[Arc<Node>]| {
            Rotation::default().choose(nodes, [None, None], || Duration::ZERO).map(|(_, why)| why)
        };
        assert_eq!(why(&nodes(1)), Some(NodeChoice::Only));
        let three = nodes(3);
        assert_eq!(why(&three), Some(NodeChoice::Turn));
        three[0].in_flight.store(9, Relaxed);
        assert_eq!(why(&three), Some(NodeChoice::Sooner));
        three[1].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        three[2].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        assert_eq!(why(&three), Some(NodeChoice::OnlyHealthy));
        three[0].health.by(Transport::Http).record_unreachable(Duration::ZERO);
        assert_eq!(why(&three), Some(NodeChoice::FirstBack));
        let late = nodes(2);
        for node in &late {
            node.health.record_probe(Some(NodeStatus::at(10)));
            node.health.compare(100, 5);
        }
        assert_eq!(why(&late), Some(NodeChoice::LeastBehind));
    }
}

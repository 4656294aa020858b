//! Which node gets the next call.

use super::health::Grade;
use super::node::{Node, NodeIndex};
use super::node_set::NodeSet;
use rpcgate_core::node_try::NodeChoice;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The nodes among which one is chosen. A drained node is among them only if it alone has what the call uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates {
    /// Those that take the call.
    pub(super) among: NodeSet,
    /// Nodes that must not get it.
    pub(super) avoid: [Option<NodeIndex>; 2],
}

impl Candidates {
    pub(super) fn has(self, node: &Node) -> bool {
        self.among.has(node.index)
            && !self.avoid.contains(&Some(node.index))
            && (self.among.is_bound() || !node.is_drained())
    }
}

impl From<[Option<NodeIndex>; 2]> for Candidates {
    /// All nodes but these.
    fn from(avoid: [Option<NodeIndex>; 2]) -> Self {
        Candidates { among: NodeSet::ALL, avoid }
    }
}

/// Goes round the nodes, so that nodes that are equally busy take turns.
#[derive(Debug, Default)]
pub(super) struct Rotation(AtomicUsize);

impl Rotation {
    /// The node for the next call, one of the `candidates`. Of the healthy ones those of the lowest priority number are
    /// considered, archives after all others, and of two of them, next in turn, the one that is likely to answer sooner is chosen. If none is healthy,
    /// the one that is least behind is; if all are backed off from, the one whose backoff ends first.
    ///
    /// `nodes` are nodes, or a transport's state of each. The reason for the choice is for explanations.
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
        let grade = |node: &N| node.as_ref().health.grade(&now);
        let rank = |node: &N| (grade(node), node.as_ref().tier());
        let (best, tier) = nodes.iter().filter(allowed).map(rank).min()?;
        match best {
            Grade::Healthy => self.of_healthy(nodes, |node| allowed(node) && rank(node) == (best, tier)),
            Grade::Unfit => {
                let unfit = nodes.iter().filter(|node| allowed(node) && grade(node) == best);
                let least = unfit.min_by_key(|node| {
                    let node = node.as_ref();
                    (node.health.behind(), node.tier(), expected_wait(node))
                });
                least.map(|least| (least, NodeChoice::LeastBehind))
            }
            Grade::BackedOff => {
                let now = now();
                let first =
                    nodes.iter().filter(allowed).min_by_key(|node| node.as_ref().health.remaining(now));
                first.map(|first| (first, NodeChoice::FirstBack))
            }
        }
        // The health of a node may have changed in between.
        .or_else(|| nodes.iter().find(allowed).map(|node| (node, NodeChoice::Turn)))
    }

    fn of_healthy<'a, N: AsRef<Node>>(
        &self,
        nodes: &'a [N],
        usable: impl Fn(&&'a N) -> bool,
    ) -> Option<(&'a N, NodeChoice)> {
        let turn = self.0.fetch_add(1, Relaxed);
        let nth = |n: usize| nodes.iter().filter(&usable).nth(n);
        let count = nodes.iter().filter(&usable).count();
        if count < 2 {
            return nth(0).map(|node| (node, NodeChoice::OnlyHealthy));
        }
        // With more than two, the second of the pair comes from a place that changes from turn to turn: if it were always
        // the same neighbour, that one would get the whole load of a node that falls behind.
        let first = turn % count;
        let step = 1 + (turn / count) % (count - 1);
        match (nth(first), nth((first + step) % count)) {
            (Some(first), Some(second))
                if is_clearly_less(expected_wait(second.as_ref()), expected_wait(first.as_ref())) =>
            {
                Some((second, NodeChoice::Sooner))
            }
            (first, second) => first.or(second).map(|node| (node, NodeChoice::Turn)),
        }
    }
}

/// How long a node is likely to need for one more call: its calls in flight and this one, times its latency.
fn expected_wait(node: &Node) -> u64 {
    let latency = node.health.latency().as_micros() as u64;
    (node.in_flight.load(Relaxed) as u64 + 1).saturating_mul(latency.max(1))
}

/// Latencies always differ a little, which is not a reason to skip a turn.
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
        nodes[1].health.record_unreachable(Duration::ZERO);
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
            node.health.record_unreachable(Duration::from_millis(at));
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
        nodes[1].health.record_unreachable(Duration::ZERO);
        assert_eq!(asked(&nodes), [2]);
        nodes[2].health.record_probe(Some(NodeStatus::at(0)));
        assert_eq!(asked(&nodes), [0], "one that is well before one that is not, whatever their tiers");
        nodes[0].health.record_probe(Some(NodeStatus::at(0)));
        assert_eq!(asked(&nodes), [3]);
    }

    #[test]
    fn an_archive_comes_after_the_others_whatever_its_priority_and_before_one_that_is_not_healthy() {
        let node = |(index, (is_archive, priority))| {
            let config = NodeConfig::new("http://127.0.0.1:1".parse().unwrap()).with_archive(is_archive);
            Node::new(index, NodeConfig { priority, ..config })
        };
        let nodes: Vec<_> = [(true, 0), (false, 9), (true, 0)].into_iter().enumerate().map(node).collect();
        assert_eq!(asked(&nodes), [1]);
        nodes[1].health.record_unreachable(Duration::ZERO);
        assert_eq!(asked(&nodes), [0, 2]);
    }

    #[test]
    fn only_a_candidate_is_chosen_and_a_drained_node_is_none_even_if_it_is_alone() {
        let drains = NodeDrains::default();
        let node = |index: usize| {
            let config = NodeConfig::new(format!("http://127.0.0.1:{}", index + 1).parse().unwrap());
            let drain = drains.of(ChainName::new("toy"), &config.name().to_string());
            Node::new(index, config.with_drain(drain))
        };
        let nodes: Vec<_> = (0..3).map(node).collect();
        let some = |places: &[usize]| Candidates {
            among: places.iter().map(|place| NodeIndex(*place)).collect(),
            avoid: [None, None],
        };
        let chosen = |nodes: &[Arc<Node>], candidates| {
            let chosen = Rotation::default().choose(nodes, candidates, || Duration::ZERO);
            chosen.map(|(node, _)| node.index.get())
        };
        for place in 0..3 {
            assert_eq!(chosen(&nodes, some(&[place])), Some(place));
        }
        nodes[2].health.record_unreachable(Duration::ZERO);
        assert_eq!(chosen(&nodes, some(&[2])), Some(2), "the only one that takes the call");
        assert_eq!(chosen(&nodes, some(&[])), None);
        drains.set([("toy".to_owned(), "http://127.0.0.1:1".to_owned())].into());
        assert_eq!(chosen(&nodes, some(&[0, 1])), Some(1));
        assert_eq!((chosen(&nodes, some(&[0])), chosen(&nodes[..1], some(&[0]))), (None, None));
        drains.set([].into());
        assert_eq!(chosen(&nodes[..1], some(&[0])), Some(0));
    }

    #[test]
    fn if_none_is_healthy_the_one_least_behind_is_used() {
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
            node.health.record_latency(Duration::from_millis(millis));
        }
        assert_eq!(counts(&Rotation::default(), &nodes, 60), [30, 30]);
        (0..20).for_each(|_| nodes[1].health.record_latency(Duration::from_millis(40)));
        assert_eq!(asked(&nodes), [0]);
        nodes[0].in_flight.store(9, Relaxed);
        assert_eq!(asked(&nodes), [1], "ten calls at 10 ms are more than one at 40");
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
        three[1].health.record_unreachable(Duration::ZERO);
        three[2].health.record_unreachable(Duration::ZERO);
        assert_eq!(why(&three), Some(NodeChoice::OnlyHealthy));
        three[0].health.record_unreachable(Duration::ZERO);
        assert_eq!(why(&three), Some(NodeChoice::FirstBack));
        let late = nodes(2);
        for node in &late {
            node.health.record_probe(Some(NodeStatus::at(10)));
            node.health.compare(100, 5);
        }
        assert_eq!(why(&late), Some(NodeChoice::LeastBehind));
    }
}

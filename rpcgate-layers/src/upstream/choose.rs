//! Which node is asked.

use super::health_state::Grade;
use super::node::{Node, NodeIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Goes round the nodes, so that those that are equally busy take turns.
#[derive(Default)]
pub(super) struct Rotation(AtomicUsize);

impl Rotation {
    /// The node to ask, none of those to `avoid`. Of nodes that are well those of the lowest priority number come into
    /// question, and of two of them next in turn the one that is likely to answer sooner. If none is well, the one least
    /// behind; if all are put aside, the one whose time is up soonest.
    pub(super) fn choose<'a>(
        &self,
        nodes: &'a [Arc<Node>],
        avoid: [Option<NodeIndex>; 2],
        now: impl Fn() -> Duration,
    ) -> Option<&'a Arc<Node>> {
        let allowed = |node: &&Arc<Node>| !avoid.contains(&Some(node.index));
        if let [only] = nodes {
            return Some(only).filter(allowed);
        }
        let grade = |node: &Arc<Node>| node.health.grade(&now);
        let rank = |node: &&Arc<Node>| (grade(node), node.config.priority);
        let (best, priority) = nodes.iter().filter(allowed).map(|node| rank(&node)).min()?;
        match best {
            Grade::Good => self.of_good(nodes, |node| allowed(node) && rank(node) == (best, priority)),
            Grade::Poor => nodes
                .iter()
                .filter(|node| allowed(node) && grade(node) == best)
                .min_by_key(|node| (node.health.behind(), node.config.priority, load(node))),
            Grade::Aside => {
                let now = now();
                nodes.iter().filter(allowed).min_by_key(|node| node.health.left(now))
            }
        }
        // A node may have been put aside in between.
        .or_else(|| nodes.iter().find(allowed))
    }

    fn of_good<'a>(
        &self,
        nodes: &'a [Arc<Node>],
        usable: impl Fn(&&'a Arc<Node>) -> bool,
    ) -> Option<&'a Arc<Node>> {
        let turn = self.0.fetch_add(1, Relaxed);
        let nth = |n: usize| nodes.iter().filter(&usable).nth(n);
        let count = nodes.iter().filter(&usable).count();
        if count < 2 {
            return nth(0);
        }
        // With more than two, the second of the pair comes from a place that changes from turn to turn: always the
        // same neighbour would get the whole load of a node that falls behind.
        let first = turn % count;
        let step = 1 + (turn / count) % (count - 1);
        match (nth(first), nth((first + step) % count)) {
            (Some(first), Some(second)) if is_clearly_less(load(second), load(first)) => Some(second),
            (first, second) => first.or(second),
        }
    }
}

/// How long a node may need for one more call: those it has, times what one takes.
fn load(node: &Node) -> u64 {
    let latency = node.health.latency().as_micros() as u64;
    (node.in_flight.load(Relaxed) as u64 + 1).saturating_mul(latency.max(1))
}

/// Latencies differ a little all the time: that is no reason to leave the turn.
fn is_clearly_less(one: u64, other: u64) -> bool {
    one.saturating_mul(5) < other.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::NodeConfig;
    use crate::upstream::idle::Idle;
    use rpcgate_core::adapter::NodeStatus;

    fn nodes(count: usize) -> Vec<Arc<Node>> {
        let node = |index| {
            let config = NodeConfig::new("http://127.0.0.1:1".parse().unwrap());
            Arc::new(Node::new(index, config, Idle::new(1, Duration::from_secs(1))))
        };
        (0..count).map(node).collect()
    }

    fn counts(rotation: &Rotation, nodes: &[Arc<Node>], turns: usize) -> Vec<usize> {
        let mut counts = vec![0; nodes.len()];
        for _ in 0..turns {
            let node = rotation.choose(nodes, [None, None], || Duration::ZERO).unwrap();
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
    fn the_busiest_node_is_left_alone() {
        for count in 2..6 {
            let nodes = nodes(count);
            nodes[0].in_flight.store(9, Relaxed);
            assert_eq!(counts(&Rotation::default(), &nodes, 60)[0], 0, "{count}");
        }
    }

    #[test]
    fn a_node_put_aside_is_left_alone_until_its_time_is_up() {
        let nodes = nodes(3);
        nodes[1].health.not_reached(Duration::ZERO);
        let rotation = Rotation::default();
        let asked =
            |now| (0..30).any(|_| rotation.choose(&nodes, [None, None], || now).unwrap().index.get() == 1);
        assert!(!asked(Duration::from_millis(999)));
        assert!(asked(Duration::from_secs(1)));
    }

    #[test]
    fn when_all_are_aside_the_soonest_to_return_is_asked() {
        let nodes = nodes(3);
        for (node, at) in nodes.iter().zip([30, 10, 20]) {
            node.health.not_reached(Duration::from_millis(at));
        }
        let choice = |avoid| {
            Rotation::default()
                .choose(&nodes, avoid, || Duration::from_millis(30))
                .map(|node| node.index.get())
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
            Arc::new(Node::new(index, config, Idle::new(1, Duration::from_secs(1))))
        };
        priorities.iter().enumerate().map(node).collect()
    }

    #[test]
    fn a_fallback_is_asked_as_a_fallback_alone() {
        let nodes = tiers(&[5, 0, 0, 9]);
        assert_eq!(asked(&nodes), [1, 2]);
        nodes[1].health.not_reached(Duration::ZERO);
        assert_eq!(asked(&nodes), [2]);
        nodes[2].health.probed(Some(NodeStatus::at(0)));
        assert_eq!(asked(&nodes), [0], "one that is well before one that is not, whatever their tiers");
        nodes[0].health.probed(Some(NodeStatus::at(0)));
        assert_eq!(asked(&nodes), [3]);
    }

    #[test]
    fn when_none_is_well_the_one_least_behind_is_asked() {
        let nodes = nodes(3);
        for (node, height) in nodes.iter().zip([80, 90, 70]) {
            node.health.probed(Some(NodeStatus::at(height)));
            node.health.compared(100, 5);
        }
        assert_eq!(asked(&nodes), [1]);
        nodes[0].health.probed(Some(NodeStatus { height: 100, syncing: true }));
        nodes[1].health.probed(None);
        nodes[1].health.probed(None);
        assert_eq!(asked(&nodes), [2]);
    }

    #[test]
    fn the_faster_of_two_is_asked_and_a_little_slower_is_not_slower() {
        let nodes = nodes(2);
        for (node, millis) in nodes.iter().zip([10, 11]) {
            node.health.took(Duration::from_millis(millis));
        }
        assert_eq!(counts(&Rotation::default(), &nodes, 60), [30, 30]);
        (0..20).for_each(|_| nodes[1].health.took(Duration::from_millis(40)));
        assert_eq!(asked(&nodes), [0]);
        nodes[0].in_flight.store(9, Relaxed);
        assert_eq!(asked(&nodes), [1], "ten calls at 10 ms are more than one at 40");
    }

    #[test]
    fn an_avoided_node_is_never_asked() {
        let two = nodes(2);
        for _ in 0..10 {
            let choice = Rotation::default().choose(&two, [Some(NodeIndex(0)), None], || Duration::ZERO);
            assert_eq!(choice.map(|node| node.index.get()), Some(1));
        }
        assert!(
            Rotation::default()
                .choose(&two, [Some(NodeIndex(0)), Some(NodeIndex(1))], || Duration::ZERO)
                .is_none()
        );
        assert!(
            Rotation::default().choose(&nodes(1), [None, Some(NodeIndex(0))], || Duration::ZERO).is_none()
        );
        assert!(Rotation::default().choose(&[], [None, None], || Duration::ZERO).is_none());
    }
}

//! Which node is asked.

use super::node::{Node, NodeIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Goes round the nodes, so that those that are equally busy take turns.
#[derive(Default)]
pub(super) struct Rotation(AtomicUsize);

impl Rotation {
    /// The node to ask, none of those to `avoid`: of two usable ones next in turn, the less busy. If all are put
    /// aside, the one whose time is up soonest.
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
        let now = now();
        let usable =
            |node: &&Arc<Node>| allowed(node) && (!node.aside.is_set() || node.aside.left(now).is_zero());
        let turn = self.0.fetch_add(1, Relaxed);
        let count = nodes.iter().filter(usable).count();
        let nth = |n: usize| nodes.iter().filter(usable).nth(n);
        // With more than two, the second of the pair comes from a place that changes from turn to turn: always the
        // same neighbour would get the whole load of a node that falls behind.
        let (first, second) = match count {
            0 => {
                return nodes.iter().filter(allowed).min_by_key(|node| node.aside.left(now));
            }
            1 => (nth(0), None),
            _ => {
                let first = turn % count;
                let step = 1 + (turn / count) % (count - 1);
                (nth(first), nth((first + step) % count))
            }
        };
        // A node that came back aside in between leaves fewer than were counted.
        [first, second]
            .into_iter()
            .flatten()
            .min_by_key(|node| node.in_flight.load(Relaxed))
            .or_else(|| nodes.iter().find(allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::NodeConfig;
    use crate::upstream::idle::Idle;

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
        nodes[1].aside.put(Duration::ZERO);
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
            node.aside.put(Duration::from_millis(at));
        }
        let choice = |avoid| {
            Rotation::default()
                .choose(&nodes, avoid, || Duration::from_millis(30))
                .map(|node| node.index.get())
        };
        assert_eq!(choice([None, None]), Some(1));
        assert_eq!(choice([Some(NodeIndex(1)), None]), Some(2));
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

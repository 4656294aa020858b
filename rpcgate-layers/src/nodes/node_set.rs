//! Sets of the nodes of one pool.

use super::node::NodeIndex;

/// Nodes of a pool by their places. Those from place 64 on are in the set of all nodes and in no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub(crate) const NONE: NodeSet = NodeSet(0);
    /// All nodes, however many there are.
    pub(crate) const ALL: NodeSet = NodeSet(u64::MAX);

    /// Whether a node is in it.
    pub(crate) const fn has(self, node: NodeIndex) -> bool {
        if node.0 < 64 { self.0 & (1 << node.0) != 0 } else { self.0 == u64::MAX }
    }

    /// Whether no node is in it.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes that are in both.
    pub(crate) const fn and(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & other.0)
    }

    /// The nodes that are in one of them.
    pub(crate) const fn or(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 | other.0)
    }

    /// The nodes without those of the other set.
    pub(crate) const fn without(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & !other.0)
    }
}

impl FromIterator<NodeIndex> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIndex>>(nodes: I) -> Self {
        let places = nodes.into_iter().filter(|node| node.0 < 64);
        NodeSet(places.fold(0, |set, node| set | 1 << node.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_nodes_and_all_nodes_are_more_than_it_can_name() {
        let some: NodeSet = [NodeIndex(0), NodeIndex(63), NodeIndex(64)].into_iter().collect();
        let places: Vec<_> = (0..100).filter(|place| some.has(NodeIndex(*place))).collect();
        assert_eq!(places, [0, 63]);
        assert!((0..100).all(|place| NodeSet::ALL.has(NodeIndex(place))));
        assert!((0..100).all(|place| !NodeSet::NONE.has(NodeIndex(place))));
        let one: NodeSet = [NodeIndex(63)].into_iter().collect();
        assert_eq!((some.and(one), some.without(some), NodeSet::ALL.and(some)), (one, NodeSet::NONE, some));
        assert!(some.without(some).is_empty() && !one.is_empty());
        assert_eq!((NodeSet::NONE.or(one), one.or(some), some.or(NodeSet::ALL)), (one, some, NodeSet::ALL));
    }
}

//! Sets of the nodes of one pool.

use super::node::NodeIndex;

/// Nodes of a pool by their places. Those from place 64 on are in the set of all nodes and in no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeSet {
    places: u64,
    /// Whether they alone have what a call uses, so that it must reach them also while they are drained.
    is_bound: bool,
}

impl NodeSet {
    /// No node.
    pub(crate) const NONE: NodeSet = NodeSet::of(0);
    /// All nodes, however many there are.
    pub(crate) const ALL: NodeSet = NodeSet::of(u64::MAX);

    const fn of(places: u64) -> NodeSet {
        NodeSet { places, is_bound: false }
    }

    /// The node that alone has what a call uses. It is among the nodes that a set can name.
    pub(crate) fn bound(node: NodeIndex) -> NodeSet {
        NodeSet { is_bound: true, ..[node].into_iter().collect() }
    }

    /// The nodes that can be named in a pool of this size.
    pub(crate) const fn nameable(nodes: usize) -> NodeSet {
        // The set of the first 64 is the set of all.
        if nodes > 64 { NodeSet::of(u64::MAX >> 1) } else { NodeSet::ALL }
    }

    /// Whether a drained node in it is used as well.
    pub(crate) const fn is_bound(self) -> bool {
        self.is_bound
    }

    /// Whether a node is in it.
    pub(crate) const fn has(self, node: NodeIndex) -> bool {
        if node.0 < 64 { self.places & (1 << node.0) != 0 } else { self.places == u64::MAX }
    }

    /// Whether no node is in it.
    pub(crate) const fn is_empty(self) -> bool {
        self.places == 0
    }

    /// The nodes that are in both.
    pub(crate) const fn and(self, other: NodeSet) -> NodeSet {
        NodeSet { places: self.places & other.places, is_bound: self.is_bound || other.is_bound }
    }

    /// The nodes that are in one of them.
    pub(crate) const fn or(self, other: NodeSet) -> NodeSet {
        NodeSet { places: self.places | other.places, ..self }
    }

    /// The nodes without those of the other set.
    pub(crate) const fn without(self, other: NodeSet) -> NodeSet {
        NodeSet { places: self.places & !other.places, ..self }
    }
}

impl FromIterator<NodeIndex> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIndex>>(nodes: I) -> Self {
        let places = nodes.into_iter().filter(|node| node.0 < 64);
        NodeSet::of(places.fold(0, |set, node| set | 1 << node.0))
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
        let bound = NodeSet::bound(NodeIndex(63));
        assert!(bound.has(NodeIndex(63)) && !bound.has(NodeIndex(0)));
        assert!(NodeSet::ALL.and(bound).is_bound() && bound.and(some).is_bound() && !one.is_bound());
        assert_eq!(NodeSet::nameable(64), NodeSet::ALL);
        assert!((0..63).all(|place| NodeSet::nameable(65).has(NodeIndex(place))));
        assert!(!NodeSet::nameable(65).has(NodeIndex(64)), "no set can name it");
        assert!(some.without(some).is_empty() && !one.is_empty());
        assert_eq!((NodeSet::NONE.or(one), one.or(some), some.or(NodeSet::ALL)), (one, some, NodeSet::ALL));
    }
}

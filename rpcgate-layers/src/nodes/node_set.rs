use super::node::NodeIndex;

/// A set of nodes of a pool, by position. Nodes from position 64 on are in the set of all nodes and in no other set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeSet {
    bits: u64,
    /// True if only these nodes have the state that a call uses, so that the call must reach them even while they are
    /// drained.
    is_bound: bool,
}

impl NodeSet {
    pub(crate) const NONE: NodeSet = NodeSet::of(0);
    pub(crate) const ALL: NodeSet = NodeSet::of(u64::MAX);

    const fn of(bits: u64) -> NodeSet {
        NodeSet { bits, is_bound: false }
    }

    /// Returns the set of the one node that has the state that a call uses. Its position must be below 64.
    pub(crate) fn bound(node: NodeIndex) -> NodeSet {
        NodeSet { is_bound: true, ..[node].into_iter().collect() }
    }

    /// Returns the nodes of a pool with `nodes` nodes that a set can name one by one.
    pub(crate) const fn nameable(nodes: usize) -> NodeSet {
        // The set of the first 64 is the set of all.
        if nodes > 64 { NodeSet::of(u64::MAX >> 1) } else { NodeSet::ALL }
    }

    /// Reports whether drained nodes in the set are used as well.
    pub(crate) const fn is_bound(self) -> bool {
        self.is_bound
    }

    pub(crate) const fn has(self, node: NodeIndex) -> bool {
        if node.0 < 64 { self.bits & (1 << node.0) != 0 } else { self.bits == u64::MAX }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.bits == 0
    }

    pub(crate) const fn and(self, other: NodeSet) -> NodeSet {
        NodeSet { bits: self.bits & other.bits, is_bound: self.is_bound || other.is_bound }
    }

    pub(crate) const fn or(self, other: NodeSet) -> NodeSet {
        NodeSet { bits: self.bits | other.bits, ..self }
    }

    pub(crate) const fn without(self, other: NodeSet) -> NodeSet {
        NodeSet { bits: self.bits & !other.bits, ..self }
    }
}

impl FromIterator<NodeIndex> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIndex>>(nodes: I) -> Self {
        let bits = nodes.into_iter().filter(|node| node.0 < 64);
        NodeSet::of(bits.fold(0, |set, node| set | 1 << node.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_the_first_64_nodes_and_all_means_every_node() {
        let some: NodeSet = [NodeIndex(0), NodeIndex(63), NodeIndex(64)].into_iter().collect();
        let bits: Vec<_> = (0..100).filter(|place| some.has(NodeIndex(*place))).collect();
        assert_eq!(bits, [0, 63]);
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

//! Nodes that an operator has drained.

use parking_lot::Mutex;
use rpcgate_core::chain::ChainName;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The drain state of a node. A drained node gets no new calls and no new streams. All pools with the node share the
/// state.
#[derive(Clone, Debug, Default)]
pub struct NodeDrain(Arc<AtomicBool>);

impl NodeDrain {
    /// Reports whether the node is drained.
    pub fn is_drained(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The drained nodes of the gateway, by chain and name. The [`NodeDrain`] of a node outlives its pool: the drain also
/// applies to a new pool, and to streams that an earlier pool opened.
///
/// ```
/// use rpcgate_core::chain::ChainName;
/// use rpcgate_layers::nodes::NodeDrains;
///
/// let drains = NodeDrains::default();
/// let eth = ChainName::new("eth");
/// let node = drains.of(eth, "http://10.0.0.1:8545");
/// drains.set([("eth".to_owned(), "http://10.0.0.1:8545".to_owned())].into());
/// assert!(node.is_drained() && drains.of(eth, "http://10.0.0.1:8545").is_drained());
/// drains.set([].into());
/// assert!(!node.is_drained());
/// ```
#[derive(Debug, Default)]
pub struct NodeDrains {
    inner: Mutex<KnownDrains>,
}

#[derive(Debug, Default)]
struct KnownDrains {
    drained: BTreeSet<(String, String)>,
    nodes: HashMap<(ChainName, String), NodeDrain>,
}

impl NodeDrains {
    /// Returns the drain of the node with this name. Nodes of one chain with the same name share it.
    pub fn of(&self, chain: ChainName, node: &str) -> NodeDrain {
        let mut known = self.inner.lock();
        // Drops drains that no pool and no stream uses any more.
        known.nodes.retain(|_, drain| Arc::strong_count(&drain.0) > 1);
        let name = (chain.as_str().to_owned(), node.to_owned());
        let is_drained = known.drained.contains(&name);
        let drain = known.nodes.entry((chain, name.1)).or_default();
        drain.0.store(is_drained, Relaxed);
        drain.clone()
    }

    /// Drains these nodes, given by chain and name, and resumes all others.
    pub fn set(&self, drained: BTreeSet<(String, String)>) {
        let mut known = self.inner.lock();
        for ((chain, node), drain) in &known.nodes {
            let name = (chain.as_str().to_owned(), node.clone());
            drain.0.store(drained.contains(&name), Relaxed);
        }
        known.drained = drained;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH: ChainName = ChainName::new("eth");

    fn named(node: &str) -> BTreeSet<(String, String)> {
        [("eth".to_owned(), node.to_owned())].into()
    }

    #[test]
    fn a_node_is_drained_on_its_own_chain_whether_it_or_the_drain_comes_first() {
        let drains = NodeDrains::default();
        let one = drains.of(ETH, "a");
        let two = drains.of(ChainName::new("bsc"), "a");
        drains.set(named("a"));
        assert!(one.is_drained() && !two.is_drained());
        drains.set(named("b"));
        assert!(!one.is_drained() && drains.of(ETH, "b").is_drained());
    }

    #[test]
    fn removed_nodes_are_forgotten_and_used_ones_are_kept() {
        let drains = NodeDrains::default();
        let held = drains.of(ETH, "held");
        for number in 0..1_000 {
            drop(drains.of(ETH, &number.to_string()));
        }
        assert!(drains.inner.lock().nodes.len() <= 2);
        drains.set(named("held"));
        assert!(held.is_drained());
    }
}

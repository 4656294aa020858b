//! One node of a pool, whatever protocol it is reached by.

use super::config::NodeConfig;
use super::health::{HealthState, NodeHealth};
use super::url::NodeUrl;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A node's place in its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NodeIndex(pub(crate) usize);

impl NodeIndex {
    /// The place, counted from 0 in the order of the configuration.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// A node, as every transport and every decision sees it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) index: NodeIndex,
    pub(crate) config: NodeConfig,
    pub(crate) health: HealthState,
    /// Calls in flight to it.
    pub(crate) in_flight: Arc<AtomicUsize>,
}

impl Node {
    pub(crate) fn new(index: usize, config: NodeConfig) -> Arc<Self> {
        let (health, in_flight) = (HealthState::default(), Arc::default());
        Arc::new(Node { index: NodeIndex(index), config, health, in_flight })
    }

    /// Whether an operator has drained it.
    pub(crate) fn is_drained(&self) -> bool {
        self.config.drain.is_drained()
    }

    /// Whether it comes after the others of its health, and then its priority.
    pub(super) fn tier(&self) -> (bool, u32) {
        (self.config.is_archive, self.config.priority)
    }

    /// The current status of the node, which has this many idle connections.
    pub(super) fn view(&self, now: Duration, idle: usize) -> NodeView<'_> {
        NodeView {
            index: self.index,
            name: self.config.name(),
            max_batch: self.config.max_batch,
            in_flight: self.in_flight.load(Relaxed),
            idle,
            priority: self.config.priority,
            health: if self.is_drained() { NodeHealth::Drained } else { self.health.health(now) },
            height: self.health.height(),
            misses: self.health.misses(),
            latency: self.health.latency(),
            faults: self.health.faults(),
        }
    }
}

/// The current status of a node.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeView<'a> {
    /// Its place.
    pub index: NodeIndex,
    /// Its first address, secrets masked.
    pub name: &'a NodeUrl,
    /// The most calls that it takes in one array.
    pub max_batch: Option<usize>,
    /// Calls in flight to it.
    pub in_flight: usize,
    /// Connections that wait for a call.
    pub idle: usize,
    /// Its tier: a node with a higher number is used if none with a lower one is healthy.
    pub priority: u32,
    /// Whether it is used, and if not, why.
    pub health: NodeHealth,
    /// The newest height that it has shown.
    pub height: Option<u64>,
    /// Probes in a row that it has not answered.
    pub misses: u32,
    /// How long it takes to answer, newer answers counting more; zero if it has not answered yet.
    pub latency: Duration,
    /// Tries of calls and streams that failed through the node or the network to it, since the pool was made.
    pub faults: u64,
}

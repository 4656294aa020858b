//! One node of a pool, whatever protocol it is reached by.

use super::config::NodeConfig;
use super::health::{HealthState, NodeHealth};
use super::network::NodeNetwork;
use super::spending::{NodeSpendingView, SpendingTime, TakenAt};
use super::url::NodeUrl;
use parking_lot::Mutex;
use rpcgate_core::chain::NodeAllowance;
use rpcgate_core::clock::Clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A node's place in its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NodeIndex(pub(crate) usize);

impl NodeIndex {
    /// The node at this place.
    pub(crate) const fn new(place: u16) -> Self {
        NodeIndex(place as usize)
    }

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
    /// The network to which it belongs.
    pub(crate) network: NodeNetwork,
    /// Why it could not be used the last time.
    failure: Mutex<Option<Arc<str>>>,
    /// Calls in flight to it.
    pub(crate) in_flight: Arc<AtomicUsize>,
}

impl Node {
    pub(crate) fn new(index: usize, config: NodeConfig) -> Arc<Self> {
        Arc::new(Node {
            index: NodeIndex(index),
            config,
            health: HealthState::default(),
            network: NodeNetwork::default(),
            failure: Mutex::default(),
            in_flight: Arc::default(),
        })
    }

    /// Whether it gets no call even if no other node is left: an operator has drained it, or it belongs to another network.
    pub(crate) fn is_out(&self) -> bool {
        self.is_drained() || self.network.is_wrong()
    }

    /// No connection to it could be made, for this reason. What answers at its address later may be another node.
    pub(crate) fn note_unreachable(&self, why: &dyn fmt::Display) {
        self.network.forget();
        self.note_failure(why);
    }

    /// It could not be used, for this reason.
    pub(crate) fn note_failure(&self, why: &dyn fmt::Display) {
        *self.failure.lock() = Some(why.to_string().into());
    }

    /// Why it could not be used the last time.
    pub(super) fn last_failure(&self) -> Option<Arc<str>> {
        self.failure.lock().clone()
    }

    /// It has answered a probe.
    pub(super) fn forget_failure(&self) {
        *self.failure.lock() = None;
    }

    /// Whether an operator has drained it.
    pub(crate) fn is_drained(&self) -> bool {
        self.config.drain.is_drained()
    }

    /// Whether a call to it has to be counted.
    pub(crate) fn has_allowance(&self) -> bool {
        !self.config.allowance.is_none()
    }

    /// Whether it may get so many calls now.
    pub(super) fn has_room(&self, calls: u32, at: SpendingTime) -> bool {
        !self.has_allowance() || self.config.spending.has_room(&self.config.allowance, calls, at)
    }

    /// Takes so many calls of what it may get; `None` if it may not get them now.
    pub(super) fn take(&self, calls: u32, at: SpendingTime) -> Option<TakenAt> {
        if !self.has_allowance() {
            return Some(TakenAt::default());
        }
        let is_taken = self.config.spending.take(&self.config.allowance, calls, at);
        is_taken.then_some(TakenAt(Some(at)))
    }

    /// Takes so many calls of what it may get by this clock, which is read only if they have to be counted; `None` if it may not get
    /// them now.
    pub(crate) fn take_now(&self, calls: u32, clock: &dyn Clock) -> Option<TakenAt> {
        if self.has_allowance() {
            self.take(calls, SpendingTime::of(clock))
        } else {
            Some(TakenAt::default())
        }
    }

    /// Counts calls that it gets whatever it may get.
    pub(crate) fn count(&self, calls: u32, clock: &dyn Clock) {
        if self.has_allowance() {
            self.config.spending.count(&self.config.allowance, calls, SpendingTime::of(clock));
        }
    }

    /// Gives calls back that were taken then and of which no byte was sent.
    pub(super) fn give_back(&self, calls: u32, taken: TakenAt, clock: &dyn Clock) {
        if let TakenAt(Some(taken)) = taken {
            self.config.spending.give_back(&self.config.allowance, calls, taken, clock.elapsed());
        }
    }

    /// Whether nothing is left of a budget that no call exceeds.
    pub(super) fn is_spent(&self, clock: &dyn Clock) -> bool {
        let hard = self.config.allowance.hard_budget();
        hard.is_some() && self.config.spending.is_spent(&self.config.allowance, SpendingTime::of(clock))
    }

    /// Its rank by cost among nodes that may be chosen otherwise, the lower first.
    pub(super) fn cost(&self, at: SpendingTime) -> (bool, u64) {
        self.config.spending.cost(&self.config.allowance, at)
    }

    /// It may not get these calls now.
    pub(super) fn pass_over(&self, calls: u32, at: SpendingTime) {
        self.config.spending.pass_over(&self.config.allowance, calls, at);
    }

    /// Whether it comes after the others of its health, and then its priority.
    pub(super) fn tier(&self) -> (bool, u32) {
        (self.config.is_archive, self.config.priority)
    }

    /// The current status of the node, which has this many idle connections.
    pub(super) fn view(&self, clock: &dyn Clock, idle: usize) -> NodeView<'_> {
        let wrong = self.network.wrong();
        let health = match self.is_drained() {
            true => NodeHealth::Drained,
            false if wrong.is_some() => NodeHealth::WrongNetwork,
            false if self.is_spent(clock) => NodeHealth::Spent,
            false => self.health.health(clock.elapsed()),
        };
        let reason = match health {
            NodeHealth::WrongNetwork => wrong.map(|wrong| wrong.to_string().into()),
            NodeHealth::Silent | NodeHealth::Ejected { .. } | NodeHealth::Unreachable { .. } => {
                self.last_failure()
            }
            _ => None,
        };
        NodeView {
            index: self.index,
            name: self.config.name(),
            max_batch: self.config.max_batch,
            in_flight: self.in_flight.load(Relaxed),
            idle,
            priority: self.config.priority,
            health,
            reason,
            height: self.health.height(),
            misses: self.health.misses(),
            latency: self.health.latency(),
            faults: self.health.faults(),
            allowance: self.config.allowance,
            spending: if self.has_allowance() {
                self.config.spending.view(SpendingTime::of(clock))
            } else {
                NodeSpendingView::default()
            },
        }
    }
}

/// The current status of a node.
#[derive(Clone, Debug)]
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
    /// The end of a sentence: why it cannot be used, if that is known.
    pub reason: Option<Arc<str>>,
    /// The newest height that it has shown.
    pub height: Option<u64>,
    /// Probes in a row that it has not answered.
    pub misses: u32,
    /// How long it takes to answer, newer answers counting more; zero if it has not answered yet.
    pub latency: Duration,
    /// Tries of calls and streams that failed through the node or the network to it, since the pool was made.
    pub faults: u64,
    /// How many calls it may get, and what they cost.
    pub allowance: NodeAllowance,
    /// The calls that it has got, if it has an allowance.
    pub spending: NodeSpendingView,
}

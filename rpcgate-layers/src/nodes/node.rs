//! One node of a pool, independent of the protocol.

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

/// The position of a node in its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NodeIndex(pub(crate) usize);

impl NodeIndex {
    pub(crate) const fn new(position: u16) -> Self {
        NodeIndex(position as usize)
    }

    /// Returns the position, counted from 0 in the order of the configuration.
    pub const fn get(self) -> usize {
        self.0
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) index: NodeIndex,
    pub(crate) config: NodeConfig,
    pub(crate) health: HealthState,
    pub(crate) network: NodeNetwork,
    failure: Mutex<Option<Arc<str>>>,
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

    /// Reports whether the node gets no call even if no other node is left, because an operator has drained it or it
    /// belongs to another network.
    pub(crate) fn is_out(&self) -> bool {
        self.is_drained() || self.network.is_wrong()
    }

    /// Records why no connection could be made. Another node may answer at its address later.
    pub(crate) fn note_unreachable(&self, why: &dyn fmt::Display) {
        self.network.forget();
        self.note_failure(why);
    }

    pub(crate) fn note_failure(&self, why: &dyn fmt::Display) {
        *self.failure.lock() = Some(why.to_string().into());
    }

    pub(super) fn last_failure(&self) -> Option<Arc<str>> {
        self.failure.lock().clone()
    }

    /// Clears the failure, because the node has answered a probe.
    pub(super) fn forget_failure(&self) {
        *self.failure.lock() = None;
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.config.drain.is_drained()
    }

    pub(crate) fn has_allowance(&self) -> bool {
        !self.config.allowance.is_none()
    }

    pub(super) fn has_capacity(&self, calls: u32, at: SpendingTime) -> bool {
        !self.has_allowance() || self.config.spending.has_capacity(&self.config.allowance, calls, at)
    }

    /// Takes `calls` calls from the node's limits; `None` if it may not get them now.
    pub(super) fn take(&self, calls: u32, at: SpendingTime) -> Option<TakenAt> {
        if !self.has_allowance() {
            return Some(TakenAt::default());
        }
        let is_taken = self.config.spending.take(&self.config.allowance, calls, at);
        is_taken.then_some(TakenAt(Some(at)))
    }

    /// Takes `calls` calls from the node's limits at the time of `clock`, which is read only if the node has limits;
    /// `None` if it may not get them now.
    pub(crate) fn take_now(&self, calls: u32, clock: &dyn Clock) -> Option<TakenAt> {
        if self.has_allowance() {
            self.take(calls, SpendingTime::of(clock))
        } else {
            Some(TakenAt::default())
        }
    }

    /// Counts calls that are sent regardless of the limits.
    pub(crate) fn count(&self, calls: u32, clock: &dyn Clock) {
        if self.has_allowance() {
            self.config.spending.count(&self.config.allowance, calls, SpendingTime::of(clock));
        }
    }

    /// Gives back calls without a sent byte.
    pub(super) fn give_back(&self, calls: u32, taken: TakenAt, clock: &dyn Clock) {
        if let TakenAt(Some(taken)) = taken {
            self.config.spending.give_back(&self.config.allowance, calls, taken, clock.elapsed());
        }
    }

    /// Reports whether nothing is left of a hard budget.
    pub(super) fn is_spent(&self, clock: &dyn Clock) -> bool {
        let hard = self.config.allowance.hard_budget();
        hard.is_some() && self.config.spending.is_spent(&self.config.allowance, SpendingTime::of(clock))
    }

    /// Returns the rank by cost, the lower first, among nodes between which nothing else decides.
    pub(super) fn cost(&self, at: SpendingTime) -> (bool, u64) {
        self.config.spending.cost(&self.config.allowance, at)
    }

    pub(super) fn pass_over(&self, calls: u32, at: SpendingTime) {
        self.config.spending.pass_over(&self.config.allowance, calls, at);
    }

    /// Returns whether the node comes after the others of its health, and then its priority.
    pub(super) fn tier(&self) -> (bool, u32) {
        (self.config.is_archive, self.config.priority)
    }

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
    /// The position in the pool.
    pub index: NodeIndex,
    /// The first address, secrets masked.
    pub name: &'a NodeUrl,
    /// The maximum number of calls in one array.
    pub max_batch: Option<usize>,
    /// Calls in flight to the node.
    pub in_flight: usize,
    /// Idle connections.
    pub idle: usize,
    /// The tier: a node with a higher number is used if none with a lower one is healthy.
    pub priority: u32,
    /// The health of the node.
    pub health: NodeHealth,
    /// The reason for the health, if it is known, as the end of a sentence.
    pub reason: Option<Arc<str>>,
    /// The newest height that the node has shown.
    pub height: Option<u64>,
    /// Consecutive unanswered probes.
    pub misses: u32,
    /// The average latency, which weighs newer answers more; zero if the node has not answered yet.
    pub latency: Duration,
    /// Failed tries of calls and streams since the pool was created for which the node or the network to it is
    /// responsible.
    pub faults: u64,
    /// The limits and prices of the calls.
    pub allowance: NodeAllowance,
    /// The calls that the node has got, if it has an allowance.
    pub spending: NodeSpendingView,
}

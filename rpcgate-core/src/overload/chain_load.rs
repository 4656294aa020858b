//! The calls in flight of a chain, and the shares of projects.

mod slot;

pub use slot::LoadSlot;

use super::baselines::{Baselines, Learning};
use super::limit::AdaptiveLimit;
use super::project_slots::{ProjectSlot, ProjectSlots};
use super::rules::LoadRules;
use crate::caller::ProjectId;
use crate::plan::Tier;
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The sets in flight below which an open limit does not count by project: half of the minimum load.
const UNCOUNTED: usize = 16;
/// The sets that a project may have in flight while the lateness of its answers is unknown.
const TRIAL: usize = 16;
/// The sets of calls that a chain has in flight.
///
/// While the limit is open, sets are only counted. Under a limit, each project has a share by the weight of its tier
/// among the projects with sets in flight. Three quarters of the limit are first come, first served. Beyond that, a
/// project is refused only if all of this is true, so that it is never refused because of another project:
///
/// - it has its share in flight, and at least one set;
/// - its own limit is reached. That follows the lateness of its own answers like the chain's limit follows that of all.
///   Lateness is relative to the usual latency per project, method and node, or else per method and node. While it is
///   unknown, a project may have 16 sets in flight;
/// - it has three quarters of its part of everything in flight. A project with less suffers from others' load.
///
/// So under a limit, the sets in flight may exceed the limit by the shares of projects that were idle before.
#[derive(Debug)]
pub struct ChainLoad {
    limit: AdaptiveLimit,
    /// The usual latencies per method and node.
    baselines: Baselines,
    /// The usual latencies per project, method and node.
    own_baselines: Baselines,
    in_flight: AtomicUsize,
    /// The projects, from the first time that enough is in flight to count them.
    slots: OnceLock<ProjectSlots>,
    hash: RandomState,
    turned_away: AtomicU64,
}

/// The refusal of a set: the chain is overloaded, and the project has used its share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChainOverloaded;

impl ChainLoad {
    /// Creates an idle load with an open limit.
    pub fn new(rules: LoadRules) -> Self {
        ChainLoad {
            limit: AdaptiveLimit::new(rules),
            baselines: Baselines::default(),
            own_baselines: Baselines::default(),
            in_flight: AtomicUsize::new(0),
            slots: OnceLock::new(),
            hash: RandomState::default(),
            turned_away: AtomicU64::new(0),
        }
    }

    /// Returns the limit, or `None` while it is open.
    pub fn limit(&self) -> Option<usize> {
        self.limit.now()
    }

    /// Reports whether nothing is in flight and nothing has ended for five seconds: a remaining limit then affects no
    /// caller. `now` is a [`Clock::elapsed`](crate::clock::Clock::elapsed).
    pub fn is_idle(&self, now: Duration) -> bool {
        self.in_flight() == 0 && self.limit.is_idle(micros(now))
    }

    /// Returns the number of sets in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// Returns the number of refused sets.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Relaxed)
    }

    /// Takes a slot for a set of this project. `now` is a [`Clock::elapsed`](crate::clock::Clock::elapsed).
    ///
    /// # Errors
    /// Returns [`ChainOverloaded`] if the chain is overloaded and has no slot for the set.
    pub fn enter(
        self: &Arc<Self>,
        project: ProjectId,
        tier: Tier,
        now: Duration,
    ) -> Result<LoadSlot, ChainOverloaded> {
        let at = micros(now);
        let before = self.in_flight.fetch_add(1, Relaxed);
        let limit = self.limit_behind(before, at);
        let occupied = if limit.is_some() || before >= UNCOUNTED {
            self.slots().occupy(project, tier, at)
        } else {
            None
        };
        if let (Some(limit), Some((slot, its))) = (limit, occupied)
            && !self.admits(OccupiedSlot { slot, its, tier }, before, limit)
        {
            self.slots().limit(slot).look(at, its);
            self.slots().release(slot);
            self.in_flight.fetch_sub(1, Relaxed);
            self.turned_away.fetch_add(1, Relaxed);
            self.limit.refused(at, before);
            return Err(ChainOverloaded);
        }
        self.limit.saw(before + 1);
        Ok(LoadSlot::new(self.clone(), project, occupied.map(|(slot, _)| slot), now))
    }

    /// Returns the limit for a set with `before` sets in flight before it. Opens the limit of an idle chain.
    fn limit_behind(&self, before: usize, now: u64) -> Option<usize> {
        let limit = self.limit.now()?;
        if before == 0 && self.limit.is_idle(now) {
            self.limit.open(now);
            return None;
        }
        Some(limit)
    }

    /// Reports whether a set is admitted under this limit, with `before` sets in flight.
    fn admits(&self, set: OccupiedSlot, before: usize, limit: usize) -> bool {
        let OccupiedSlot { slot, its, tier } = set;
        if its == 0 || before < limit - limit / 4 || its < self.share(tier, limit) {
            return true;
        }
        let own = self.slots().limit(slot);
        match own.now() {
            Some(own_limit) if its >= own_limit => its < self.share(tier, before) * 3 / 4,
            None if own.lateness() == 0.0 => its < TRIAL,
            _ => true,
        }
    }

    fn slots(&self) -> &ProjectSlots {
        self.slots.get_or_init(|| ProjectSlots::new(*self.limit.rules()))
    }

    /// Returns the share of a project of this tier in `of` sets, at least 1.
    fn share(&self, tier: Tier, of: usize) -> usize {
        let weights =
            self.limit.rules().weights.map(|weight| u64::from(weight.clamp(1, LoadRules::MOST_WEIGHT)));
        let active = self.slots().active();
        let all: u64 = active.iter().zip(weights).map(|(active, weight)| u64::from(*active) * weight).sum();
        let share = of as u64 * weights[tier as usize] / all.max(1);
        share.max(1) as usize
    }

    fn kind(&self, of: &impl Hash) -> u64 {
        self.hash.hash_one(of)
    }

    fn leave(&self, slot: Option<ProjectSlot>) {
        if let Some(slot) = slot {
            self.slots().release(slot);
        }
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Records the end of a set at `now`: an answer, or, if it is not whole, the end of the wait for one.
    fn ended(&self, end: End, now: Duration) {
        let latency = micros(end.latency);
        let now = micros(now);
        let rules = self.limit.rules();
        let factor = rules.factor();
        let own_kind = self.hash.hash_one((end.kind, end.project));
        let own = self.own_baselines.usual(own_kind);
        let usual = own.or_else(|| self.baselines.usual(end.kind));
        let patience = micros(rules.latency) as f64 / factor;
        let lateness = latency as f64 / (usual.unwrap_or_default() as f64).max(patience).max(1.0);
        if end.is_complete {
            let how = if self.limit.is_calm(now) {
                Learning::Calm
            } else if self.limit.is_least() {
                Learning::Alone
            } else if self.limit.is_rising() {
                Learning::Rising
            } else {
                Learning::None
            };
            self.baselines.learn(end.kind, latency, now, how);
            // A project that arrives during a load must not take its latency as the usual one.
            if how != Learning::None || own.is_some() {
                self.own_baselines.learn_over_time(own_kind, latency, now, how);
            }
        }
        // An abandoned answer would have taken even longer.
        if end.is_complete || lateness > factor {
            if usual.is_some() {
                self.limit.sample(lateness, latency);
            }
            // A fast enough answer is in time even if the usual latency is unknown.
            if let Some(slot) = end.slot.filter(|_| usual.is_some() || lateness <= factor) {
                self.slots().limit(slot).sample(lateness, latency);
            }
        }
        if let Some(slot) = end.slot {
            let own = self.slots().limit(slot);
            own.look(now, self.slots().in_flight(slot));
        }
        self.limit.look(now, self.in_flight());
    }

    fn passed(&self, now: Duration) {
        self.limit.look(micros(now), self.in_flight());
    }
}

#[derive(Clone, Copy)]
struct OccupiedSlot {
    slot: ProjectSlot,
    /// The sets of its project that entered before.
    its: usize,
    tier: Tier,
}

#[derive(Clone, Copy)]
struct End {
    kind: u64,
    project: ProjectId,
    slot: Option<ProjectSlot>,
    latency: Duration,
    is_complete: bool,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl ChainLoad {
    pub(super) fn slots_in_use(&self) -> u64 {
        self.slots().taken() + self.slots().active().into_iter().map(u64::from).sum::<u64>()
    }

    pub(super) fn active(&self) -> [u32; Tier::ALL.len()] {
        self.slots().active()
    }
}

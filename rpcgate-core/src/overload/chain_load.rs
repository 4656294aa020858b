//! What a chain has under way, and who may have how much of it.

mod place;

pub use place::LoadPlace;

use super::baselines::{Baselines, Learning};
use super::limit::AdaptiveLimit;
use super::rules::LoadRules;
use super::seats::{Seat, Seats};
use crate::caller::ProjectId;
use crate::plan::Tier;
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// While the limit is open and fewer sets are under way, they are not counted by project. It is half of the least load.
const UNCOUNTED: usize = 16;
/// The sets that a project may have under way while it is not known whether its answers are late.
const TRIAL: usize = 16;
/// The sets of calls that a chain has under way.
///
/// While its limit is open, every set is admitted and only counted. Under a limit each project has a share of it, in
/// proportion to the weight of its tier among the projects that have anything under way. Three quarters of the limit go to
/// the sets that come first. Beyond that a project is refused only if all of this is true, so that it is never refused because
/// of another project:
///
/// - it has its share under way, and at least one set;
/// - it has as much under way as a limit of its own allows, which follows the lateness of its own answers as the chain's limit
///   follows that of all. Each answer is compared with what is usual for its project, method and node, or where that
///   is not known, for its method and node. A project whose lateness is not known yet may have 16 sets under way;
/// - it has three quarters of its part of everything that is under way. A project with less suffers from the load of others and
///   does not cause it.
///
/// So under a limit the sets under way may exceed the limit by the shares of projects that were idle before.
#[derive(Debug)]
pub struct ChainLoad {
    limit: AdaptiveLimit,
    /// What is usual for a method and node.
    baselines: Baselines,
    /// What is usual for a method and node in the calls of one project.
    own_baselines: Baselines,
    under_way: AtomicUsize,
    /// The projects, from the first time on that so much is under way that they are counted.
    seats: OnceLock<Seats>,
    hash: RandomState,
    turned_away: AtomicU64,
}

/// The refusal of a set: the chain is overloaded, and the project has its share of what the chain can do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Overrun;

impl ChainLoad {
    /// Nothing under way, and an open limit.
    pub fn new(rules: LoadRules) -> Self {
        ChainLoad {
            limit: AdaptiveLimit::new(rules),
            baselines: Baselines::default(),
            own_baselines: Baselines::default(),
            under_way: AtomicUsize::new(0),
            seats: OnceLock::new(),
            hash: RandomState::default(),
            turned_away: AtomicU64::new(0),
        }
    }

    /// The limit, or `None` while it is open.
    pub fn limit(&self) -> Option<usize> {
        self.limit.now()
    }

    /// Whether nothing is under way, and nothing has ended for five seconds. Then there is no load, and a limit that is left
    /// holds for nobody. `now` is that of [`Clock::elapsed`](crate::clock::Clock::elapsed).
    pub fn is_idle(&self, now: Duration) -> bool {
        self.under_way() == 0 && self.limit.is_idle(micros(now))
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// The number of sets that were refused.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Relaxed)
    }

    /// A place for a set of this project. `now` is that of [`Clock::elapsed`](crate::clock::Clock::elapsed).
    ///
    /// # Errors
    /// [`Overrun`] if it gets none, because the chain is overloaded.
    pub fn enter(
        self: &Arc<Self>,
        project: ProjectId,
        tier: Tier,
        now: Duration,
    ) -> Result<LoadPlace, Overrun> {
        let at = micros(now);
        let before = self.under_way.fetch_add(1, Relaxed);
        let limit = self.limit_behind(before, at);
        let seated =
            if limit.is_some() || before >= UNCOUNTED { self.seats().sit(project, tier, at) } else { None };
        if let (Some(limit), Some((seat, its))) = (limit, seated)
            && !self.admits(Seated { seat, its, tier }, before, limit)
        {
            self.seats().limit(seat).look(at, its);
            self.seats().rise(seat);
            self.under_way.fetch_sub(1, Relaxed);
            self.turned_away.fetch_add(1, Relaxed);
            self.limit.refused(at, before);
            return Err(Overrun);
        }
        self.limit.saw(before + 1);
        Ok(LoadPlace::new(self.clone(), project, seated.map(|(seat, _)| seat), now))
    }

    /// The limit for a set before which so many are under way.
    fn limit_behind(&self, before: usize, now: u64) -> Option<usize> {
        let limit = self.limit.now()?;
        if before == 0 && self.limit.is_idle(now) {
            self.limit.open(now);
            return None;
        }
        Some(limit)
    }

    /// Whether a set is admitted under this limit, where `before` sets are under way already.
    fn admits(&self, set: Seated, before: usize, limit: usize) -> bool {
        let Seated { seat, its, tier } = set;
        if its == 0 || before < limit - limit / 4 || its < self.share(tier, limit) {
            return true;
        }
        let own = self.seats().limit(seat);
        match own.now() {
            Some(own_limit) if its >= own_limit => its < self.share(tier, before) * 3 / 4,
            None if own.lateness() == 0.0 => its < TRIAL,
            _ => true,
        }
    }

    fn seats(&self) -> &Seats {
        self.seats.get_or_init(|| Seats::new(*self.limit.rules()))
    }

    /// The share of a project of this tier in a number of sets: one at least.
    fn share(&self, tier: Tier, of: usize) -> usize {
        let weights =
            self.limit.rules().weights.map(|weight| u64::from(weight.clamp(1, LoadRules::MOST_WEIGHT)));
        let active = self.seats().active();
        let all: u64 = active.iter().zip(weights).map(|(active, weight)| u64::from(*active) * weight).sum();
        let share = of as u64 * weights[tier as usize] / all.max(1);
        share.max(1) as usize
    }

    /// The number of a kind of answers.
    fn kind(&self, of: &impl Hash) -> u64 {
        self.hash.hash_one(of)
    }

    /// Leaves a place.
    fn leave(&self, seat: Option<Seat>) {
        if let Some(seat) = seat {
            self.seats().rise(seat);
        }
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// An answer, or, if it is not whole, the end of the wait for one, at `now`.
    fn ended(&self, end: End, now: Duration) {
        let (latency, now) = (micros(end.latency), micros(now));
        let rules = self.limit.rules();
        let factor = rules.factor();
        let own_kind = self.hash.hash_one((end.kind, end.project));
        let own = self.own_baselines.usual(own_kind);
        let usual = own.or_else(|| self.baselines.usual(end.kind));
        let patience = micros(rules.latency) as f64 / factor;
        let lateness = latency as f64 / (usual.unwrap_or_default() as f64).max(patience).max(1.0);
        if end.is_whole {
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
            // A project that comes in the middle of a load must not take its latency for the usual one.
            if how != Learning::None || own.is_some() {
                self.own_baselines.learn_over_time(own_kind, latency, now, how);
            }
        }
        // An answer that was not waited for would have taken longer still.
        if end.is_whole || lateness > factor {
            if usual.is_some() {
                self.limit.sample(lateness, latency);
            }
            // An answer that is never too late is in time, whether or not it is known what is usual.
            if let Some(seat) = end.seat.filter(|_| usual.is_some() || lateness <= factor) {
                self.seats().limit(seat).sample(lateness, latency);
            }
        }
        if let Some(seat) = end.seat {
            let own = self.seats().limit(seat);
            own.look(now, self.seats().under_way(seat));
        }
        self.limit.look(now, self.under_way());
    }

    /// Something ended that says nothing about latency.
    fn passed(&self, now: Duration) {
        self.limit.look(micros(now), self.under_way());
    }
}

/// A set that has a seat and asks to be admitted.
#[derive(Clone, Copy)]
struct Seated {
    seat: Seat,
    /// The sets of its project that were seated before.
    its: usize,
    tier: Tier,
}

/// The end of a set, or of the wait for it.
#[derive(Clone, Copy)]
struct End {
    kind: u64,
    project: ProjectId,
    seat: Option<Seat>,
    latency: Duration,
    is_whole: bool,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl ChainLoad {
    /// Places that are counted for a seat.
    pub(super) fn seats_in_use(&self) -> u64 {
        self.seats().taken() + self.seats().active().into_iter().map(u64::from).sum::<u64>()
    }

    /// The projects of each tier that have something under way.
    pub(super) fn active(&self) -> [u32; Tier::ALL.len()] {
        self.seats().active()
    }
}

//! What a chain has under way, and who may have how much of it.

mod place;

pub use place::LoadPlace;

use super::baselines::{Baselines, Learning};
use super::limit::AdaptiveLimit;
use super::rules::LoadRules;
use crate::caller::ProjectId;
use crate::plan::Tier;
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The seats of each tier.
const SEATS: usize = 256;

/// The sets of calls that a chain has under way.
///
/// While its limit is open, everybody is admitted and only their number is counted. Under a limit each project has a share
/// of it, in proportion to the weight of its tier among the projects that have anything under way. Three quarters of the
/// limit go to whoever comes first; beyond that a project is admitted as long as it has less than its share, even a
/// quarter above the limit, so that it need not wait until a greedy one has ended.
///
/// Projects are counted by a part of their identifier, in 256 seats for each tier: two projects of a tier that have the same
/// seat, one pair in 256, have one share together.
#[derive(Debug)]
pub struct ChainLoad {
    limit: AdaptiveLimit,
    baselines: Baselines,
    under_way: AtomicUsize,
    /// The places of the projects of a seat, tier by tier.
    seats: Box<[AtomicU32]>,
    /// The seats of each tier that have a place.
    active: [AtomicU32; Tier::ALL.len()],
    hash: RandomState,
    turned_away: [AtomicU64; Overrun::ALL.len()],
}

/// Why a chain that is overloaded admits no more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Overrun {
    /// The project has its share of the limit.
    Share,
    /// The limit is exceeded, by projects below their shares.
    Limit,
}

impl Overrun {
    /// Both.
    pub const ALL: [Overrun; 2] = [Overrun::Share, Overrun::Limit];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Overrun::Share => "share",
            Overrun::Limit => "limit",
        }
    }
}

impl ChainLoad {
    /// Nothing under way, and an open limit.
    pub fn new(rules: LoadRules) -> Self {
        ChainLoad {
            limit: AdaptiveLimit::new(rules),
            baselines: Baselines::default(),
            under_way: AtomicUsize::new(0),
            seats: (0..SEATS * Tier::ALL.len()).map(|_| AtomicU32::new(0)).collect(),
            active: Default::default(),
            hash: RandomState::default(),
            turned_away: Default::default(),
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

    /// How many were turned away for this reason.
    pub fn turned_away(&self, why: Overrun) -> u64 {
        self.turned_away[why as usize].load(Relaxed)
    }

    /// A place for a set of this project. `now` is that of [`Clock::elapsed`](crate::clock::Clock::elapsed).
    ///
    /// # Errors
    /// Why it gets none, because the chain is overloaded.
    pub fn enter(
        self: &Arc<Self>,
        project: ProjectId,
        tier: Tier,
        now: Duration,
    ) -> Result<LoadPlace, Overrun> {
        let before = self.under_way.fetch_add(1, Relaxed);
        let seat = match self.limit_behind(before, micros(now)) {
            None => None,
            Some(limit) => match self.sit(project, tier, before, limit) {
                Ok(seat) => Some(seat),
                Err(why) => {
                    self.under_way.fetch_sub(1, Relaxed);
                    self.turned_away[why as usize].fetch_add(1, Relaxed);
                    self.limit.refused(micros(now), before);
                    return Err(why);
                }
            },
        };
        self.limit.saw(before + 1);
        Ok(LoadPlace::new(self.clone(), seat, now))
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

    /// A seat under this limit, where so many are under way `before` it.
    fn sit(&self, project: ProjectId, tier: Tier, before: usize, limit: usize) -> Result<u16, Overrun> {
        // Identifiers are random in their lower half, and no caller chooses its own.
        let seat = tier as usize * SEATS + project.0 as usize % SEATS;
        let its = self.seats[seat].fetch_add(1, Relaxed);
        if its == 0 {
            self.active[tier as usize].fetch_add(1, Relaxed);
        }
        let spare = limit / 4;
        let verdict = if before < limit - spare {
            Ok(())
        } else if its as usize >= self.share(tier, limit) {
            Err(Overrun::Share)
        } else if before >= limit + spare.max(1) {
            Err(Overrun::Limit)
        } else {
            Ok(())
        };
        // There are fewer seats than numbers of this type.
        let seat = seat as u16;
        verdict.map(|()| seat).inspect_err(|_| self.rise(seat))
    }

    /// The share of a project of this tier in the limit: one at least.
    fn share(&self, tier: Tier, limit: usize) -> usize {
        let weights =
            self.limit.rules().weights.map(|weight| u64::from(weight.clamp(1, LoadRules::MOST_WEIGHT)));
        let all: u64 = self
            .active
            .iter()
            .zip(weights)
            .map(|(active, weight)| u64::from(active.load(Relaxed)) * weight)
            .sum();
        let share = limit as u64 * weights[tier as usize] / all.max(1);
        share.max(1) as usize
    }

    /// The number of a kind of answers.
    fn kind(&self, of: &impl Hash) -> u64 {
        self.hash.hash_one(of)
    }

    /// Leaves a seat.
    fn rise(&self, seat: u16) {
        let seat = usize::from(seat);
        if self.seats[seat].fetch_sub(1, Relaxed) == 1 {
            self.active[seat / SEATS].fetch_sub(1, Relaxed);
        }
    }

    /// Leaves a place.
    fn leave(&self, seat: Option<u16>) {
        if let Some(seat) = seat {
            self.rise(seat);
        }
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// An answer of this kind, or, if it is not `whole`, the end of the wait for one, after `latency`.
    fn ended(&self, kind: u64, latency: Duration, now: Duration, is_whole: bool) {
        let (latency, now) = (micros(latency), micros(now));
        let usual = self.baselines.usual(kind);
        let rules = self.limit.rules();
        let factor = rules.factor();
        let lateness = usual.map(|usual| {
            let patience = micros(rules.latency) as f64 / factor;
            latency as f64 / (usual as f64).max(patience).max(1.0)
        });
        if is_whole {
            let how = if self.limit.is_calm(now) {
                Learning::Calm
            } else if self.limit.is_least() {
                Learning::Alone
            } else if self.limit.is_rising() {
                Learning::Rising
            } else {
                Learning::None
            };
            self.baselines.learn(kind, latency, now, how);
        }
        // An answer that was not waited for would have taken longer still.
        if let Some(lateness) = lateness.filter(|lateness| is_whole || *lateness > factor) {
            self.limit.sample(lateness, latency);
        }
        self.limit.look(now, self.under_way());
    }

    /// Something ended that says nothing about latency.
    fn passed(&self, now: Duration) {
        self.limit.look(micros(now), self.under_way());
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl ChainLoad {
    /// Places that are counted for a seat.
    pub(super) fn seats_in_use(&self) -> u32 {
        let active: u32 = self.active.iter().map(|active| active.load(Relaxed)).sum();
        active + self.seats.iter().map(|seat| seat.load(Relaxed)).sum::<u32>()
    }
}

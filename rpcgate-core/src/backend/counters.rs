//! Counters: plan windows by key, requests per second and Compute Units by project.

use super::Answer;
use crate::caller::{Caller, KeyId, ProjectId};
use crate::clock::Time;
use crate::in_flight::InFlightCall;
use crate::quota::{Grant, Mask, Rolling};
use crate::refusal::Refusal;
use crate::sharded::Sharded;
use crate::window::{Fixed, KeyWindows, Windows};
use std::fmt::Debug;

/// The result of counting requests in the windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowCount {
    /// The current state of the windows.
    pub windows: Windows,
    /// The reason why nothing was counted; `None` if the requests were counted.
    pub refused: Option<Refusal>,
}

/// Counters of requests and Compute Units, shared by all gateways of a deployment or local to one.
pub trait Counters: Send + Sync + Debug {
    /// Counts `weight` requests in the caller's three windows and, if the project has an `rps_limit`, in its second: in
    /// all or in none. `now` is the arrival. If a later request was counted in a newer window, so is this one, see
    /// [`Fixed`].
    fn take(&self, caller: &Caller, weight: u32, now: Time) -> Answer<WindowCount>;

    /// Returns the caller's windows. Never waits, because the headers of early refusals need it.
    fn peek(&self, caller: &Caller, now: Time) -> Windows;

    /// Reserves `costs` in order in the project's rolling 24 hours; see [`Rolling::reserve`].
    fn reserve(&self, caller: &Caller, costs: &[u32], now: Time) -> Answer<(Mask, Grant)>;

    /// Refunds `units` to `hour`.
    fn refund(&self, project: ProjectId, hour: u64, units: u64);

    /// Returns a guard for a call from before it is counted until its record is in the sink. By it, the counters know
    /// which counts must already be recorded. `None` if they do not need it.
    fn in_flight(&self) -> Option<InFlightCall> {
        None
    }

    /// Removes everything that is irrelevant at `now`, the current time. Called regularly, to free the memory of unused
    /// keys, and after the clock was set back, so that nothing is counted in future spans.
    fn sweep(&self, now: Time) {
        let _ = now;
    }
}

/// Counts from before a restart that are still valid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// The moment of the counts.
    pub now: Time,
    /// By key: the requests in the minute, the hour and the day of `now`.
    pub windows: Vec<(KeyId, [u64; 3])>,
    /// By project: the number of a UTC hour, at most 23 hours back, and the Compute Units charged in it.
    pub units: Vec<(ProjectId, u64, u64)>,
}

/// Counters in the memory of one process.
#[derive(Debug, Default)]
pub struct MemoryCounters {
    keys: Sharded<KeyId, KeyWindows>,
    seconds: Sharded<ProjectId, Fixed<1>>,
    units: Sharded<ProjectId, Rolling>,
}

impl MemoryCounters {
    /// Reports whether no counts are kept.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.seconds.is_empty() && self.units.is_empty()
    }

    /// Adds the counts from before a restart.
    pub fn restore(&self, restored: &Restored) {
        for (key, used) in &restored.windows {
            self.keys.with(*key, |windows| windows.restore(*used, restored.now));
        }
        for (project, hour, units) in &restored.units {
            let at = Time::from_secs(hour.saturating_mul(3_600));
            self.units.with(*project, |rolling| rolling.add(*units, at));
        }
    }

    /// Returns the Compute Units of a project in the 24 hours up to `now`.
    pub fn used(&self, project: ProjectId, now: Time) -> u64 {
        self.units.look(project, |units| units.map_or(0, |units| units.used(now)))
    }
}

impl Counters for MemoryCounters {
    fn sweep(&self, now: Time) {
        self.keys.retain(|windows| {
            windows.forget_ahead(now);
            !windows.is_over(now)
        });
        self.seconds.retain(|second| !second.is_over(now));
        self.units.retain(|units| !units.is_over(now));
    }

    fn take(&self, caller: &Caller, weight: u32, now: Time) -> Answer<WindowCount> {
        let weight = u64::from(weight);
        let take = || {
            let (windows, taken) =
                self.keys.with(caller.key, |windows| windows.take(&caller.plan, weight, now));
            WindowCount { windows, refused: taken.err().map(|retry_after| Refusal::Window { retry_after }) }
        };
        let Some(limit) = caller.quota.rps_limit else { return Answer::Now(take()) };
        // Takes the second first and returns it if the windows refuse, so that the two locks are never held together.
        let counted = self.seconds.with(caller.project, |second| {
            let fits = second.used(now).saturating_add(weight) <= limit;
            fits.then(|| second.add(weight, now))
        });
        let Some(number) = counted else {
            let refused = Some(Refusal::Window { retry_after: 1 });
            return Answer::Now(WindowCount { windows: self.peek(caller, now), refused });
        };
        let taken = take();
        if taken.refused.is_some() {
            self.seconds.with(caller.project, |second| second.give_back(weight, number));
        }
        Answer::Now(taken)
    }

    fn peek(&self, caller: &Caller, now: Time) -> Windows {
        self.keys.look(caller.key, |windows| windows.copied().unwrap_or_default().peek(&caller.plan, now))
    }

    fn reserve(&self, caller: &Caller, costs: &[u32], now: Time) -> Answer<(Mask, Grant)> {
        let ceiling = caller.quota.cu_per_day;
        Answer::Now(self.units.with(caller.project, |units| units.reserve(costs, ceiling, now)))
    }

    fn refund(&self, project: ProjectId, hour: u64, units: u64) {
        self.units.with(project, |rolling| rolling.refund(hour, units));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;

    #[test]
    fn memory_passes_the_suite_of_counters() {
        suite::counters(|| std::sync::Arc::new(MemoryCounters::default()));
    }

    #[test]
    fn counts_from_before_a_restart_are_restored() {
        let caller = suite::caller(1);
        let now = Time::from_secs(100 * 86_400 + 5 * 3_600 + 90);
        let restored = Restored {
            now,
            windows: vec![(caller.key, [2, 30, 400])],
            // The newest hour first: the order of the hours does not matter.
            units: vec![
                (caller.project, now.hour(), 7),
                (caller.project, now.hour() - 23, 5),
                (caller.project, now.hour() - 24, 1_000),
            ],
        };
        let counters = MemoryCounters::default();
        counters.restore(&restored);
        let windows = counters.peek(&caller, now);
        let used = [windows.minute, windows.hour, windows.day].map(|w| w.limit - w.remaining);
        assert_eq!(used, [2, 30, 400]);
        assert_eq!(counters.used(caller.project, now), 12);
        assert_eq!(counters.used(caller.project, Time::from_secs(now.secs() + 3_600)), 7);
    }

    #[test]
    fn expired_counts_are_removed() {
        let counters = MemoryCounters::default();
        let caller = suite::caller(1);
        let now = Time::from_secs(1_000_000);
        let Answer::Now(_) = counters.take(&caller, 1, now) else { panic!("memory does not wait") };
        let Answer::Now(_) = counters.reserve(&caller, &[5], now) else { panic!("memory does not wait") };
        counters.sweep(now);
        assert_eq!(counters.used(caller.project, now), 5);
        let later = Time::from_secs(1_000_000 + 3 * 86_400);
        counters.sweep(later);
        assert!(counters.keys.is_empty() && counters.units.is_empty());
    }
}

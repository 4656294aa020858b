//! The rate limit of a node: the generic cell rate algorithm (GCRA) in one word of memory.

use rpcgate_core::chain::NodeRate;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The part of a node's rate limit that its calls have used. The rate is an argument of each method, so that it may
/// change.
///
/// In a period of `t` seconds at most `burst + per_second * t` calls are taken. An array with more calls than `burst`
/// is taken only while the whole burst is left, and delays later calls for the calls above the burst.
#[derive(Debug, Default)]
pub(super) struct CallRate {
    /// The time at which all taken calls are used up, in nanoseconds on the monotonic clock.
    until: AtomicU64,
}

/// Returns the nanoseconds of a second that one call uses, rounded up.
fn share(rate: NodeRate) -> u64 {
    1_000_000_000_u64.div_ceil(u64::from(rate.per_second.max(1)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the new `until` after `calls` more calls, or `None` if they exceed the rate now.
fn after(until: u64, rate: NodeRate, calls: u32, now: u64) -> Option<u64> {
    let share = share(rate);
    let burst = rate.burst.max(1);
    let base = until.max(now);
    let cost = share.saturating_mul(calls.min(burst).into());
    let is_within = (base - now).saturating_add(cost) <= share.saturating_mul(burst.into());
    is_within.then(|| base.saturating_add(share.saturating_mul(calls.into())))
}

impl CallRate {
    pub(super) fn has_capacity(&self, rate: NodeRate, calls: u32, now: Duration) -> bool {
        after(self.until.load(Relaxed), rate, calls, nanos(now)).is_some()
    }

    /// Takes all `calls` calls, or none of them. Returns false if they exceed the rate now.
    pub(super) fn take(&self, rate: NodeRate, calls: u32, now: Duration) -> bool {
        let now = nanos(now);
        self.until.fetch_update(Relaxed, Relaxed, |until| after(until, rate, calls, now)).is_ok()
    }

    /// Counts calls that are sent regardless of the rate.
    pub(super) fn count(&self, rate: NodeRate, calls: u32, now: Duration) {
        let now = nanos(now);
        let used = share(rate).saturating_mul(calls.into());
        let later = |until: u64| Some(until.max(now).saturating_add(used));
        // `later` never returns `None`.
        let _ = self.until.fetch_update(Relaxed, Relaxed, later);
    }

    /// Gives back calls that were taken at `taken` and not sent. The part that the rate has already restored since then
    /// is not given back twice.
    pub(super) fn give_back(&self, rate: NodeRate, calls: u32, taken: Duration, now: Duration) {
        let used = share(rate).saturating_mul(calls.into());
        let left = nanos(taken).saturating_add(used).saturating_sub(nanos(now)).min(used);
        let earlier = |until: u64| Some(until.saturating_sub(left));
        let _ = self.until.fetch_update(Relaxed, Relaxed, earlier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: NodeRate = NodeRate { per_second: 10, burst: 5 };

    fn taken(used: &CallRate, now: Duration) -> usize {
        (0..1_000).take_while(|_| used.take(RATE, 1, now)).count()
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_is_taken_at_once_and_then_calls_at_the_rate() {
        let used = CallRate::default();
        assert_eq!((taken(&used, millis(0)), taken(&used, millis(0))), (5, 0));
        assert!(!used.has_capacity(RATE, 1, millis(99)) && used.has_capacity(RATE, 1, millis(100)));
        assert_eq!((taken(&used, millis(99)), taken(&used, millis(100))), (0, 1));
        assert_eq!(taken(&used, millis(350)), 2);
        assert_eq!(taken(&used, millis(3_600_000)), 5, "no more than the burst is saved up");
    }

    #[test]
    fn an_array_is_admitted_whole_and_one_above_the_burst_delays_the_next_calls() {
        let used = CallRate::default();
        assert!(used.take(RATE, 3, millis(0)) && !used.take(RATE, 3, millis(0)));
        assert!(used.take(RATE, 2, millis(0)));
        assert!(!used.take(RATE, 20, millis(499)) && used.take(RATE, 20, millis(500)));
        assert!(!used.has_capacity(RATE, 1, millis(2_099)) && used.has_capacity(RATE, 1, millis(2_100)));
    }

    #[test]
    fn returned_calls_may_be_taken_again_and_counted_ones_may_not() {
        let used = CallRate::default();
        assert_eq!(taken(&used, millis(0)), 5);
        used.give_back(RATE, 2, millis(0), millis(0));
        assert_eq!(taken(&used, millis(0)), 2);
        used.count(RATE, 1, millis(100));
        assert_eq!(taken(&used, millis(100)), 0);
        assert_eq!(taken(&used, millis(200)), 1);
    }

    #[test]
    fn calls_returned_late_never_exceed_the_burst() {
        let used = CallRate::default();
        assert!(used.take(RATE, 5, millis(0)));
        assert_eq!(taken(&used, millis(9_000)), 5);
        used.give_back(RATE, 5, millis(0), millis(9_000));
        assert_eq!(taken(&used, millis(9_000)), 0, "no more than the burst at once");
        assert!(!used.has_capacity(RATE, 1, millis(9_060)));
        used.give_back(RATE, 1, millis(9_000), millis(9_060));
        assert_eq!(taken(&used, millis(9_060)), 1, "the rest of its tenth of a second");
    }

    #[test]
    fn parallel_takers_take_exactly_what_there_is() {
        let used = CallRate::default();
        let rate = NodeRate { per_second: 1_000, burst: 500 };
        let taken: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..1_000).filter(|_| used.take(rate, 1, millis(7))).count()))
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(taken, 500);
    }

    proptest! {
        // Shows (Nodes and cache).
        #[test]
        fn no_time_has_more_calls_than_the_burst_and_the_rate_allow(
            per_second in 1_u32..5_000,
            burst in 1_u32..100,
            steps in proptest::collection::vec((0_u64..50_000, 1_u32..4), 1..300),
        ) {
            let used = CallRate::default();
            let rate = NodeRate { per_second, burst };
            let mut now = Duration::from_secs(9);
            let mut calls = 0_u64;
            let begin = now;
            for (micros, cost) in steps {
                now += Duration::from_micros(micros);
                let cost = cost.min(burst);
                calls += if used.take(rate, cost, now) { u64::from(cost) } else { 0 };
                let passed = (now - begin).as_nanos();
                let most = u128::from(burst) + passed * u128::from(per_second) / 1_000_000_000;
                prop_assert!(u128::from(calls) <= most, "{calls} after {passed} ns");
            }
        }

        // Shows (Nodes and cache).
        #[test]
        fn no_period_exceeds_its_limit_if_calls_are_returned_late(
            per_second in 1_u32..5_000,
            burst in 1_u32..20,
            steps in proptest::collection::vec(
                (0_u64..50_000, 1_u32..4, proptest::option::of(0_u64..200_000)),
                1..150,
            ),
        ) {
            let used = CallRate::default();
            let rate = NodeRate { per_second, burst };
            let mut now = Duration::from_secs(9);
            let mut sent = Vec::new();
            let mut unsent = Vec::new();
            for (micros, cost, failing_after) in steps {
                now += Duration::from_micros(micros);
                unsent.retain(|&(taken, failing, calls): &(Duration, Duration, u32)| {
                    let has_failed = failing <= now;
                    if has_failed {
                        used.give_back(rate, calls, taken, now);
                    }
                    !has_failed
                });
                let cost = cost.min(burst);
                if used.take(rate, cost, now) {
                    match failing_after {
                        Some(micros) => unsent.push((now, now + Duration::from_micros(micros), cost)),
                        None => sent.push((now, cost)),
                    }
                }
            }
            for (place, (begin, _)) in sent.iter().enumerate() {
                let mut calls = 0;
                for (end, more) in &sent[place..] {
                    calls += u128::from(*more);
                    let passed = (*end - *begin).as_nanos();
                    let most = u128::from(burst) + passed * u128::from(per_second) / 1_000_000_000;
                    prop_assert!(calls <= most, "{calls} in {passed} ns");
                }
            }
        }
    }
}

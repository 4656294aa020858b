//! The latencies of calls by method.
//!
//! A call costs a few atomic additions. The memory is bounded: methods beyond the number of slots share the last one.
//! So do methods that the chain does not list, whose names clients choose.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The number of slots for methods, without the shared one.
const SLOTS: usize = 63;

/// The number of slots at which a method is looked for.
const PROBED: usize = 8;

/// The minimum number of measured calls for a usual time.
const FEWEST: u32 = 20;

/// The number of calls after which the usual time is computed again.
const EVERY: u32 = 16;

/// The number of a method's calls after which the earlier ones count half.
const HALVED: u32 = 1_024;

/// The exponent of 2 of the shortest distinguished time, in microseconds.
const SHORTEST: u32 = 8;

/// The number of buckets: four for each doubling, up to a minute.
const BUCKETS: usize = 4 * 18;

#[derive(Debug)]
pub(super) struct Latencies {
    percentile: u32,
    methods: Box<[MethodLatency]>,
    others: MethodLatency,
}

#[derive(Debug)]
struct MethodLatency {
    /// The address of the method's name in memory; 0 for a free slot.
    name: AtomicUsize,
    buckets: [AtomicU32; BUCKETS],
    calls: AtomicU32,
    /// The percentile in microseconds; 0 if it is not known.
    usual: AtomicU64,
}

impl MethodLatency {
    fn new() -> Self {
        MethodLatency {
            name: AtomicUsize::new(0),
            buckets: std::array::from_fn(|_| AtomicU32::new(0)),
            calls: AtomicU32::new(0),
            usual: AtomicU64::new(0),
        }
    }

    fn record(&self, took: Duration, percentile: u32) {
        if let Some(bucket) = self.buckets.get(bucket(took)) {
            bucket.fetch_add(1, Relaxed);
        }
        let calls = self.calls.fetch_add(1, Relaxed).wrapping_add(1);
        if calls < FEWEST || !calls.is_multiple_of(EVERY) {
            return;
        }
        self.usual.store(self.quantile(percentile), Relaxed);
        if calls >= HALVED {
            // Concurrent additions may be lost, which only makes the measure a little less exact.
            let mut left = 0;
            for bucket in &self.buckets {
                let half = bucket.load(Relaxed) / 2;
                bucket.store(half, Relaxed);
                left += half;
            }
            self.calls.store(left, Relaxed);
        }
    }

    /// Returns the upper bound, in microseconds, of the bucket that contains the percentile.
    fn quantile(&self, percentile: u32) -> u64 {
        let counts = self.buckets.each_ref().map(|bucket| u64::from(bucket.load(Relaxed)));
        let rank = (counts.iter().sum::<u64>() * u64::from(percentile)).div_ceil(100);
        let mut below = 0;
        let slot = counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        upper(slot.unwrap_or(BUCKETS - 1))
    }
}

impl Latencies {
    pub(super) fn new(percentile: u32) -> Self {
        let methods = (0..SLOTS).map(|_| MethodLatency::new()).collect();
        Latencies { percentile, methods, others: MethodLatency::new() }
    }

    /// Returns the slot of a method, which is the same for the lifetime of the pool. A call without a method name uses
    /// the shared slot.
    fn of(&self, method: &'static str) -> &MethodLatency {
        if method.is_empty() {
            return &self.others;
        }
        let name = method.as_ptr().addr();
        for step in 0..PROBED {
            let Some(slot) = self.methods.get((name / 8 + step) % SLOTS) else { break };
            let taken = slot.name.load(Relaxed);
            if taken == name || (taken == 0 && claims(slot, name)) {
                return slot;
            }
        }
        &self.others
    }

    /// Returns the percentile of a method's latency; `None` if too few calls were measured.
    pub(super) fn usual(&self, method: &'static str) -> Option<Duration> {
        let usual = self.of(method).usual.load(Relaxed);
        (usual > 0).then(|| Duration::from_micros(usual))
    }

    pub(super) fn record(&self, method: &'static str, took: Duration) {
        self.of(method).record(took, self.percentile);
    }
}

/// Claims a free slot. Returns whether it now belongs to this name.
fn claims(slot: &MethodLatency, name: usize) -> bool {
    match slot.name.compare_exchange(0, name, Relaxed, Relaxed) {
        Ok(_) => true,
        Err(taken) => taken == name,
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1 << SHORTEST);
    let log = micros.ilog2();
    let quarter = (micros >> (log - 2)) & 3;
    ((log - SHORTEST) as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

fn upper(bucket: usize) -> u64 {
    let log = SHORTEST as usize + bucket / 4;
    (5 + bucket as u64 % 4) << (log - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of a name in memory identifies its method.
    static A: &str = "a";
    static B: &str = "b";

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn a_time_is_below_the_upper_bound_of_its_bucket_by_a_quarter_at_most() {
        for micros in (256..60_000_000).step_by(997) {
            let upper = upper(bucket(Duration::from_micros(micros)));
            assert!(upper > micros && upper * 4 <= micros * 5 + 8, "{micros} {upper}");
        }
        assert_eq!((bucket(Duration::ZERO), bucket(Duration::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn the_usual_time_is_that_of_the_percentile_and_follows_the_newer_calls() {
        let latencies = Latencies::new(90);
        for number in 0..FEWEST - 1 {
            latencies.record(A, MILLI * number);
        }
        assert_eq!(latencies.usual(A), None, "too few");
        let latencies = Latencies::new(90);
        let near = |latencies: &Latencies, expected: Duration| {
            let usual = latencies.usual(A).unwrap();
            assert!(usual >= expected && usual <= expected * 3 / 2, "{usual:?} {expected:?}");
        };
        for number in 0..1_000 {
            latencies.record(A, if number % 20 == 0 { MILLI * 800 } else { MILLI * 10 });
        }
        near(&latencies, MILLI * 10);
        assert_eq!(latencies.usual(B), None, "each method has its own");
        (0..8_000).for_each(|_| latencies.record(A, MILLI * 100));
        near(&latencies, MILLI * 100);
    }

    #[test]
    fn methods_beyond_the_tracked_number_share_a_slot() {
        let latencies = Latencies::new(95);
        // The address of a name identifies it, so each of these is a method of its own.
        let names: &'static str = Box::leak("x".repeat(4_096).into_boxed_str());
        for at in (0..4_096).step_by(8) {
            latencies.record(&names[at..=at], MILLI);
        }
        let taken = latencies.methods.iter().filter(|slot| slot.name.load(Relaxed) != 0).count();
        assert_eq!(taken, SLOTS);
        assert!(latencies.others.calls.load(Relaxed) as usize >= 512 - SLOTS);
        latencies.record("", MILLI);
        assert!(latencies.usual("").is_some());
    }
}

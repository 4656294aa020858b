//! Hedged reads: a read that takes unusually long is also sent to a second node.

use super::latencies::Latencies;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The policy for sending a read to a second node while the first still works on it. The first usable answer is taken,
/// and the other try is cancelled.
///
/// Broadcasts, arrays, streams and gRPC calls are never hedged. A hedge needs a healthy second node that takes the
/// call, and one retry of the chain's [budget](super::RetryBudget).
/// that takes the call, and one retry of the [budget](super::RetryBudget) of the chain.
///
/// ```
/// use rpcgate_layers::nodes::{HedgePolicy, PoolLimits};
/// use std::time::Duration;
///
/// let hedge = HedgePolicy::default().with_percentile(99).with_at_least(Duration::from_millis(20));
/// let limits = PoolLimits::default().with_hedge(Some(hedge));
/// assert_eq!(limits.hedge.map(|hedge| hedge.max_percent), Some(5));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HedgePolicy {
    /// The latency percentile of a method after which its calls are hedged.
    pub percentile: u32,
    /// The minimum time before a call is hedged.
    pub at_least: Duration,
    /// The maximum share of hedged calls, in per cent of all calls that can be hedged.
    pub max_percent: u32,
}

impl Default for HedgePolicy {
    /// Returns a policy with the 95th percentile, a minimum of 50 ms, and at most 5 % of the calls.
    fn default() -> Self {
        HedgePolicy { percentile: 95, at_least: Duration::from_millis(50), max_percent: 5 }
    }
}

impl HedgePolicy {
    /// Sets the latency percentile.
    #[must_use]
    pub const fn with_percentile(mut self, percentile: u32) -> Self {
        self.percentile = percentile;
        self
    }

    /// Sets the minimum time before a call is hedged.
    #[must_use]
    pub const fn with_at_least(mut self, at_least: Duration) -> Self {
        self.at_least = at_least;
        self
    }

    /// Sets the maximum share of hedged calls.
    #[must_use]
    pub const fn with_max_percent(mut self, max_percent: u32) -> Self {
        self.max_percent = max_percent;
        self
    }
}

/// Counts of the hedges of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HedgeCounts {
    /// Calls that were sent to a second node.
    pub sent: u64,
    /// Calls that the second node answered first.
    pub won: u64,
    /// Calls that took long enough but were not hedged, because no healthy second node existed or a bound was reached.
    pub withheld: u64,
}

/// The maximum number of hedges that earlier calls can save up.
const SAVED: u64 = 10;

/// The cost of one hedge, in hundredths of a hedge.
const FULL: u64 = 100;

#[derive(Debug)]
pub(super) struct Hedging {
    policy: HedgePolicy,
    latencies: Latencies,
    /// The hedges that earlier calls have earned, in hundredths of a hedge.
    earned: AtomicU64,
    sent: AtomicU64,
    won: AtomicU64,
    withheld: AtomicU64,
}

impl Hedging {
    pub(super) fn new(policy: HedgePolicy) -> Self {
        Hedging {
            latencies: Latencies::new(policy.percentile),
            policy,
            earned: AtomicU64::new(SAVED * FULL),
            sent: AtomicU64::new(0),
            won: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
        }
    }

    /// Records that a call of this method begins. Returns the time after which it is hedged; `None` if too few calls
    /// were measured.
    pub(super) fn begin(&self, method: &'static str) -> Option<Duration> {
        // Concurrent calls may exceed the bound by a little, which does no harm.
        if self.earned.load(Relaxed) < SAVED * FULL {
            self.earned.fetch_add(self.policy.max_percent.into(), Relaxed);
        }
        Some(self.latencies.usual(method)?.max(self.policy.at_least))
    }

    /// Records that a call of this method was answered after `took`, hedged or not.
    pub(super) fn record(&self, method: &'static str, took: Duration) {
        self.latencies.record(method, took);
    }

    /// Takes one hedge from the share of all calls. Returns false if none is left.
    pub(super) fn take(&self) -> bool {
        self.earned.fetch_update(Relaxed, Relaxed, |earned| earned.checked_sub(FULL)).is_ok()
    }

    pub(super) fn give_back(&self) {
        self.earned.fetch_add(FULL, Relaxed);
    }

    pub(super) fn count_sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }

    pub(super) fn count_won(&self) {
        self.won.fetch_add(1, Relaxed);
    }

    pub(super) fn count_withheld(&self) {
        self.withheld.fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self) -> HedgeCounts {
        HedgeCounts {
            sent: self.sent.load(Relaxed),
            won: self.won.load(Relaxed),
            withheld: self.withheld.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of a name in memory identifies its method.
    static A: &str = "a";
    static B: &str = "b";

    // Shows (Nodes and cache).
    #[test]
    fn hedges_are_a_share_of_the_calls_and_few_are_saved_up() {
        let hedging = Hedging::new(HedgePolicy::default());
        let taken = |hedging: &Hedging| (0..1_000).filter(|_| hedging.take()).count();
        assert_eq!((taken(&hedging), taken(&hedging)), (10, 0), "a new pool has saved some");
        (0..100).for_each(|_| _ = hedging.begin(A));
        assert_eq!(taken(&hedging), 5);
        (0..10_000).for_each(|_| _ = hedging.begin(A));
        assert_eq!(taken(&hedging), 10);
    }

    #[test]
    fn a_call_is_hedged_after_the_usual_time_of_its_method_and_no_sooner_than_the_least() {
        let hedging = Hedging::new(HedgePolicy::default());
        assert_eq!(hedging.begin(A), None, "nothing was measured");
        (0..100).for_each(|_| hedging.record(A, Duration::from_millis(200)));
        (0..100).for_each(|_| hedging.record(B, Duration::from_millis(2)));
        assert!(hedging.begin(A).unwrap() >= Duration::from_millis(200));
        assert_eq!(hedging.begin(B), Some(Duration::from_millis(50)));
    }
}

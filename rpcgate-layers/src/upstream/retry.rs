//! How much may be sent twice.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A reserve of retries: one for every ten calls, and three a second for a pool with few. What is not used within
/// ten seconds is lost. So a node that fails under load is not met with twice the load.
///
/// A call costs one addition; the lock is taken by retries only.
pub(super) struct Budget {
    calls: AtomicU64,
    reserve: Mutex<Reserve>,
}

struct Reserve {
    /// In tenths of a retry.
    tenths: f64,
    calls: u64,
    at: Duration,
}

impl Budget {
    /// Retries a second that are allowed however few calls there are.
    const FLOOR: f64 = 3.0;
    /// Seconds after which what was put aside is lost.
    const KEPT: f64 = 10.0;

    pub(super) fn new(now: Duration) -> Self {
        let full = Reserve { tenths: 10.0 * Self::FLOOR * Self::KEPT, calls: 0, at: now };
        Budget { calls: AtomicU64::new(0), reserve: Mutex::new(full) }
    }

    /// A call was made.
    pub(super) fn earn(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Takes one retry out of the reserve; false if there is none.
    pub(super) fn spend(&self, now: Duration) -> bool {
        let calls = self.calls.load(Relaxed);
        let mut reserve = self.reserve.lock();
        let secs = now.saturating_sub(reserve.at).as_secs_f64();
        let fresh = calls.saturating_sub(reserve.calls) as f64;
        let earned = fresh.max(10.0 * Self::FLOOR * secs);
        // Of a long time without retries only the last part counts.
        let part = if secs > Self::KEPT { Self::KEPT / secs } else { 1.0 };
        let left = reserve.tenths * (1.0 - secs / Self::KEPT).max(0.0);
        *reserve = Reserve {
            tenths: left + earned * part,
            calls: calls.max(reserve.calls),
            at: now.max(reserve.at),
        };
        if reserve.tenths < 10.0 {
            return false;
        }
        reserve.tenths -= 10.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(budget: &Budget, now: Duration) -> usize {
        (0..).take_while(|_| budget.spend(now)).count()
    }

    #[test]
    fn a_pool_without_calls_keeps_a_small_reserve() {
        let budget = Budget::new(Duration::ZERO);
        assert_eq!(spent(&budget, Duration::ZERO), 30);
        assert_eq!(spent(&budget, Duration::from_secs(2)), 6);
        assert_eq!(spent(&budget, Duration::from_secs(3600)), 30);
    }

    #[test]
    fn under_load_every_tenth_call_may_be_sent_again() {
        let budget = Budget::new(Duration::ZERO);
        spent(&budget, Duration::ZERO);
        let mut retries = 0;
        for second in 1..=60 {
            (0..1000).for_each(|_| budget.earn());
            retries += spent(&budget, Duration::from_secs(second));
        }
        assert_eq!(retries, 6000);
    }

    #[test]
    fn a_quiet_hour_does_not_save_up_for_a_storm() {
        let budget = Budget::new(Duration::ZERO);
        (0..360_000).for_each(|_| budget.earn());
        let at_once = spent(&budget, Duration::from_secs(3600));
        assert_eq!(at_once, 100, "a tenth of ten seconds at 100 calls a second");
    }

    #[test]
    fn a_clock_that_two_threads_read_in_either_order_does_no_harm() {
        let budget = Budget::new(Duration::from_secs(10));
        assert!(budget.spend(Duration::from_secs(9)));
        assert_eq!(spent(&budget, Duration::from_secs(10)), 29);
    }
}

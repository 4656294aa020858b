use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The retry budget of a chain. It prevents twice the load on a node that fails under load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RetryBudget {
    /// The number of calls that earn one retry; at least 1.
    pub calls_per_retry: u32,
    /// Retries per second that are allowed regardless of the number of calls.
    pub min_per_sec: u32,
    /// The time for which earned retries are saved.
    pub ttl: Duration,
}

impl Default for RetryBudget {
    /// Returns a budget of one retry for every ten calls, at least three per second, saved up for ten seconds.
    fn default() -> Self {
        RetryBudget { calls_per_retry: 10, min_per_sec: 3, ttl: Duration::from_secs(10) }
    }
}

impl RetryBudget {
    /// Sets the number of calls that earn one retry.
    #[must_use]
    pub const fn with_calls_per_retry(mut self, calls_per_retry: u32) -> Self {
        self.calls_per_retry = calls_per_retry;
        self
    }

    /// Sets the number of free retries per second.
    #[must_use]
    pub const fn with_min_per_sec(mut self, min_per_sec: u32) -> Self {
        self.min_per_sec = min_per_sec;
        self
    }

    /// Sets the time for which earned retries are saved.
    #[must_use]
    pub const fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }
}

/// The balance of a [`RetryBudget`], which begins full. A call costs one addition; only retries take the lock.
#[derive(Debug)]
pub(crate) struct RetryBalance {
    budget: RetryBudget,
    calls: AtomicU64,
    saved: Mutex<Saved>,
}

#[derive(Debug)]
struct Saved {
    /// Saved retries, multiplied by `calls_per_retry`.
    parts: f64,
    /// The number of calls that are included in `parts`.
    calls: u64,
    at: Duration,
}

impl RetryBalance {
    pub(super) fn new(budget: RetryBudget, now: Duration) -> Self {
        let budget = RetryBudget { calls_per_retry: budget.calls_per_retry.max(1), ..budget };
        let full = Self::min_parts(&budget, budget.ttl.as_secs_f64());
        RetryBalance {
            budget,
            calls: AtomicU64::new(0),
            saved: Mutex::new(Saved { parts: full, calls: 0, at: now }),
        }
    }

    /// Returns the parts that `secs` seconds earn without any call.
    fn min_parts(budget: &RetryBudget, secs: f64) -> f64 {
        f64::from(budget.calls_per_retry) * f64::from(budget.min_per_sec) * secs
    }

    pub(super) fn deposit(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Takes one retry. Returns false if none is left.
    pub(crate) fn withdraw(&self, now: Duration) -> bool {
        self.withdraw_beyond(0.0, now)
    }

    /// Takes one retry if more than half of what an idle pool saves up is left afterwards.
    pub(crate) fn withdraw_spare(&self, now: Duration) -> bool {
        self.withdraw_beyond(Self::min_parts(&self.budget, self.budget.ttl.as_secs_f64()) / 2.0, now)
    }

    /// Takes one retry if `kept_back` parts are left afterwards.
    fn withdraw_beyond(&self, kept_back: f64, now: Duration) -> bool {
        let calls = self.calls.load(Relaxed);
        let retry = f64::from(self.budget.calls_per_retry);
        let ttl = self.budget.ttl.as_secs_f64();
        let mut saved = self.saved.lock();
        let secs = now.saturating_sub(saved.at).as_secs_f64();
        let new_calls = calls.saturating_sub(saved.calls) as f64;
        let earned = new_calls.max(Self::min_parts(&self.budget, secs));
        // After a time without retries that is longer than `ttl`, only its last part counts.
        let (part, remaining) =
            if secs > ttl { (ttl / secs, 0.0) } else { (1.0, 1.0 - secs / ttl.max(f64::MIN_POSITIVE)) };
        *saved = Saved {
            parts: saved.parts * remaining + earned * part,
            calls: calls.max(saved.calls),
            at: now.max(saved.at),
        };
        if saved.parts < retry + kept_back {
            return false;
        }
        saved.parts -= retry;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(now: Duration) -> RetryBalance {
        RetryBalance::new(RetryBudget::default(), now)
    }

    fn withdrawn(balance: &RetryBalance, now: Duration) -> usize {
        (0..).take_while(|_| balance.withdraw(now)).count()
    }

    #[test]
    fn a_pool_without_calls_keeps_a_small_reserve() {
        let balance = balance(Duration::ZERO);
        assert_eq!(withdrawn(&balance, Duration::ZERO), 30);
        assert_eq!(withdrawn(&balance, Duration::from_secs(2)), 6);
        assert_eq!(withdrawn(&balance, Duration::from_secs(3600)), 30);
    }

    #[test]
    fn spare_retries_leave_half_of_the_reserve() {
        let balance = balance(Duration::ZERO);
        let spare = (0..).take_while(|_| balance.withdraw_spare(Duration::ZERO)).count();
        assert_eq!((spare, withdrawn(&balance, Duration::ZERO)), (15, 15));
    }

    #[test]
    fn under_load_every_tenth_call_may_be_sent_again() {
        let balance = balance(Duration::ZERO);
        withdrawn(&balance, Duration::ZERO);
        let mut retries = 0;
        for second in 1..=60 {
            (0..1000).for_each(|_| balance.deposit());
            retries += withdrawn(&balance, Duration::from_secs(second));
        }
        assert_eq!(retries, 6000);
    }

    #[test]
    fn a_quiet_hour_does_not_save_up_for_a_storm() {
        let balance = balance(Duration::ZERO);
        (0..360_000).for_each(|_| balance.deposit());
        let at_once = withdrawn(&balance, Duration::from_secs(3600));
        assert_eq!(at_once, 100, "a tenth of ten seconds at 100 calls a second");
    }

    #[test]
    fn a_clock_that_two_threads_read_in_either_order_does_no_harm() {
        let balance = balance(Duration::from_secs(10));
        assert!(balance.withdraw(Duration::from_secs(9)));
        assert_eq!(withdrawn(&balance, Duration::from_secs(10)), 29);
    }

    #[test]
    fn another_budget_is_respected() {
        let of = |budget| RetryBalance::new(budget, Duration::ZERO);
        let none = of(RetryBudget { min_per_sec: 0, ..RetryBudget::default() });
        assert!(!none.withdraw(Duration::ZERO));
        (0..10).for_each(|_| none.deposit());
        assert_eq!(withdrawn(&none, Duration::ZERO), 1, "ten calls earn one");
        let every = of(RetryBudget { calls_per_retry: 0, min_per_sec: 0, ttl: Duration::ZERO });
        every.deposit();
        assert_eq!(withdrawn(&every, Duration::ZERO), 1, "no call earns more than one");
    }
}

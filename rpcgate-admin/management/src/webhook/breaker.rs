//! The circuit breaker of an endpoint.

use rpcgate_core::clock::Time;
use std::time::Duration;

const FAILURES: u32 = 5;
/// The first pause, which doubles with each further failure, and the longest one.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);
/// The time after the last pause for which failures are remembered: roughly the time until the last attempt of a
/// delivery.
const KEPT: Duration = Duration::from_secs(900);

/// A circuit breaker that counts the failures of an endpoint. Five consecutive failures open it. Then one attempt is
/// made after each pause, and the pauses grow until one succeeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    until: Time,
}

impl Breaker {
    pub(super) fn succeeded(&mut self) {
        *self = Breaker::default();
    }

    pub(super) fn failed(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        let pause = match self.failures.checked_sub(FAILURES) {
            Some(beyond) => FIRST.saturating_mul(1 << beyond.min(16)).min(LONGEST),
            None => Duration::ZERO,
        };
        self.until = now.plus(pause);
    }

    /// Reports whether only single attempts are made.
    pub(super) fn is_open(&self) -> bool {
        self.failures >= FAILURES
    }

    /// Reports whether an attempt may be made while the breaker is open.
    pub(super) fn is_pause_over(&self, now: Time) -> bool {
        // A clock that was set back must not extend a pause beyond the longest one.
        now >= self.until || self.until.since(now) > LONGEST
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.failures == 0
    }

    /// Reports whether the failures are old enough to forget.
    pub(super) fn is_old(&self, now: Time) -> bool {
        self.is_untouched() || (self.is_pause_over(now) && now.since(self.until) >= KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Webhooks).
    #[test]
    fn pauses_begin_with_the_fifth_failure_grow_and_end_with_a_success() {
        let mut breaker = Breaker::default();
        let mut now = Time::from_secs(1_000_000);
        for _ in 0..4 {
            breaker.failed(now);
        }
        assert!(!breaker.is_open());
        let mut pauses = Vec::new();
        for _ in 0..9 {
            breaker.failed(now);
            assert!(breaker.is_open() && !breaker.is_pause_over(now));
            let secs =
                (0..).find(|secs| breaker.is_pause_over(now.plus(Duration::from_secs(*secs)))).unwrap();
            pauses.push(secs);
            now = now.plus(Duration::from_secs(secs));
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        breaker.succeeded();
        assert!(!breaker.is_open() && breaker.is_untouched());
    }

    #[test]
    fn failures_are_old_long_after_the_last_pause() {
        let mut breaker = Breaker::default();
        let now = Time::from_secs(1_000_000);
        assert!(breaker.is_old(now));
        breaker.failed(now);
        assert!(!breaker.is_old(now) && breaker.is_old(now.plus(KEPT)));
        for _ in 0..4 {
            breaker.failed(now);
        }
        assert!(!breaker.is_old(now.plus(KEPT)) && breaker.is_old(now.plus(FIRST + KEPT)));
    }

    #[test]
    fn a_clock_set_back_does_not_delay_an_endpoint() {
        let mut breaker = Breaker::default();
        let now = Time::from_secs(1_000_000);
        for _ in 0..5 {
            breaker.failed(now);
        }
        assert!(!breaker.is_pause_over(now));
        assert!(breaker.is_pause_over(Time::from_secs(1_000)));
    }
}

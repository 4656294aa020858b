//! Backoff from a node, with a pause that doubles each time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The time until which a node gets no calls.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Microseconds on the monotonic clock; 0 if the node is in use.
    until: AtomicU64,
    failures: AtomicU32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(30);
    /// The gateway uses a node again after this time even if the node requested a longer pause.
    const LONGEST_REQUESTED: Duration = Duration::from_secs(60);

    pub(crate) fn remaining(&self, now: Duration) -> Duration {
        match self.until.load(Relaxed) {
            0 => Duration::ZERO,
            until => Duration::from_micros(until).saturating_sub(now),
        }
    }

    /// Reports whether a backoff began since the node was last healthy. If not, callers do not need to read the clock.
    pub(crate) fn is_set(&self) -> bool {
        self.until.load(Relaxed) != 0
    }

    /// Records a failure. Calls that fail during the same backoff count as one failure.
    pub(crate) fn fail(&self, now: Duration) {
        let before = self.until.load(Relaxed);
        if Duration::from_micros(before) > now {
            return;
        }
        let doublings = self.failures.load(Relaxed).min(16);
        let pause = Self::FIRST.saturating_mul(1 << doublings).min(Self::LONGEST);
        let until = (now + pause).as_micros() as u64;
        if self.until.compare_exchange(before, until, Relaxed, Relaxed).is_ok() {
            self.failures.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn pause(&self, now: Duration, pause: Duration) {
        let until = (now + pause.min(Self::LONGEST_REQUESTED)).as_micros() as u64;
        self.until.fetch_max(until, Relaxed);
    }

    pub(crate) fn clear(&self) {
        // Reads first: a write on each call would take the cache line from all other threads.
        if self.is_set() {
            self.until.store(0, Relaxed);
            self.failures.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_up_to_half_a_minute_and_ends_when_the_node_is_reached() {
        let backoff = Backoff::default();
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            backoff.fail(now);
            pauses.push(backoff.remaining(now).as_secs());
            now += backoff.remaining(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        backoff.clear();
        assert!(!backoff.is_set());
        backoff.fail(now);
        assert_eq!(backoff.remaining(now).as_secs(), 1);
    }

    #[test]
    fn calls_that_fail_together_count_once() {
        let backoff = Backoff::default();
        for _ in 0..64 {
            backoff.fail(Duration::from_secs(5));
        }
        assert_eq!(backoff.remaining(Duration::from_secs(5)).as_secs(), 1);
    }

    #[test]
    fn a_pause_requested_by_a_node_is_respected_up_to_a_limit() {
        let backoff = Backoff::default();
        backoff.pause(Duration::from_secs(5), Duration::from_secs(7));
        assert_eq!(backoff.remaining(Duration::from_secs(5)).as_secs(), 7);
        backoff.pause(Duration::from_secs(5), Duration::from_secs(2));
        assert_eq!(backoff.remaining(Duration::from_secs(5)).as_secs(), 7, "the longer of two holds");
        backoff.pause(Duration::from_secs(5), Duration::from_secs(86_400));
        assert_eq!(backoff.remaining(Duration::from_secs(5)).as_secs(), 60);
    }
}

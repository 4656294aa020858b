//! Leaving a node alone for a while, and longer each time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Whether a node is left alone for a while.
#[derive(Default)]
pub(super) struct Backoff {
    /// On the clock's second hand, in microseconds; 0 for a usable node.
    until: AtomicU64,
    failures: AtomicU32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(30);
    /// Who asks for more is asked again nevertheless.
    const LONGEST_ASKED: Duration = Duration::from_secs(60);

    /// How long it stays aside.
    pub(super) fn left(&self, now: Duration) -> Duration {
        match self.until.load(Relaxed) {
            0 => Duration::ZERO,
            until => Duration::from_micros(until).saturating_sub(now),
        }
    }

    /// Whether it was put aside since it was last well: the rest need no look at the clock.
    pub(super) fn is_set(&self) -> bool {
        self.until.load(Relaxed) != 0
    }

    /// It failed. Calls that fail together count as one failure.
    pub(super) fn put(&self, now: Duration) {
        let before = self.until.load(Relaxed);
        if Duration::from_micros(before) > now {
            return;
        }
        let doublings = self.failures.load(Relaxed).min(16);
        let stay = Self::FIRST.saturating_mul(1 << doublings).min(Self::LONGEST);
        let until = (now + stay).as_micros() as u64;
        if self.until.compare_exchange(before, until, Relaxed, Relaxed).is_ok() {
            self.failures.fetch_add(1, Relaxed);
        }
    }

    /// It asked to be left alone for so long.
    pub(super) fn put_for(&self, now: Duration, stay: Duration) {
        let until = (now + stay.min(Self::LONGEST_ASKED)).as_micros() as u64;
        self.until.fetch_max(until, Relaxed);
    }

    /// It is well again.
    pub(super) fn clear(&self) {
        // Looked at first: writing would take the cache line away from every other thread, call by call.
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
    fn a_stay_aside_doubles_up_to_half_a_minute_and_ends_when_the_node_is_reached() {
        let aside = Backoff::default();
        let mut now = Duration::ZERO;
        let mut stays = Vec::new();
        for _ in 0..7 {
            aside.put(now);
            stays.push(aside.left(now).as_secs());
            now += aside.left(now);
        }
        assert_eq!(stays, [1, 2, 4, 8, 16, 30, 30]);
        aside.clear();
        assert!(!aside.is_set());
        aside.put(now);
        assert_eq!(aside.left(now).as_secs(), 1);
    }

    #[test]
    fn calls_that_fail_together_count_once() {
        let aside = Backoff::default();
        for _ in 0..64 {
            aside.put(Duration::from_secs(5));
        }
        assert_eq!(aside.left(Duration::from_secs(5)).as_secs(), 1);
    }

    #[test]
    fn a_node_that_says_how_long_is_left_alone_so_long_but_not_for_ever() {
        let aside = Backoff::default();
        aside.put_for(Duration::from_secs(5), Duration::from_secs(7));
        assert_eq!(aside.left(Duration::from_secs(5)).as_secs(), 7);
        aside.put_for(Duration::from_secs(5), Duration::from_secs(2));
        assert_eq!(aside.left(Duration::from_secs(5)).as_secs(), 7, "the longer of two holds");
        aside.put_for(Duration::from_secs(5), Duration::from_secs(86_400));
        assert_eq!(aside.left(Duration::from_secs(5)).as_secs(), 60);
    }
}

//! A limit on how often the log repeats a message.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The minimum time between two messages, in microseconds.
const EVERY: u64 = 10_000_000;

/// The time of the last message.
#[derive(Debug, Default)]
pub(super) struct LogThrottle(AtomicU64);

impl LogThrottle {
    /// Reports whether to log at `now`, a reading of [`elapsed`](rpcgate_core::clock::Clock::elapsed).
    pub(super) fn is_due(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX - 1) + 1;
        let last = self.0.load(Relaxed);
        let is_due = last == 0 || now.saturating_sub(last) >= EVERY;
        is_due && self.0.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_problem_is_logged_once_in_ten_seconds() {
        let throttle = LogThrottle::default();
        let due = [0, 1, 9_999, 10_000, 19_999, 20_000].map(|ms| throttle.is_due(Duration::from_millis(ms)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}

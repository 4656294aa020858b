//! The status of shipping, for metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Shipping {
    left: AtomicU64,
    /// Everything before this time is shipped: microseconds of the clock's `elapsed`.
    done: AtomicU64,
    failing: AtomicBool,
    shipments: AtomicU64,
    failures: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    /// Bytes of the journal that are not shipped.
    pub(crate) left: u64,
    /// The maximum age of those bytes.
    pub(crate) lag: Duration,
    /// The last attempt succeeded; true before the first.
    pub(crate) is_up: bool,
    pub(crate) shipments: u64,
    pub(crate) failures: u64,
}

impl Shipping {
    pub(super) fn arrived(&self) {
        self.shipments.fetch_add(1, Relaxed);
    }

    /// Notes a successful attempt that began at `begun` and left `left` bytes. Without `more`, everything present at
    /// its begin, in the journal or still in memory, is shipped, and the bytes left are newer.
    pub(super) fn went_well(&self, left: u64, more: bool, begun: Duration) {
        self.left.store(left, Relaxed);
        self.failing.store(false, Relaxed);
        if !more {
            self.done.store(micros(begun), Relaxed);
        }
    }

    pub(super) fn failed(&self, left: u64) {
        self.left.store(left, Relaxed);
        self.failing.store(true, Relaxed);
        self.failures.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self, now: Duration) -> Shown {
        Shown {
            left: self.left.load(Relaxed),
            lag: now.saturating_sub(Duration::from_micros(self.done.load(Relaxed))),
            is_up: !self.failing.load(Relaxed),
            shipments: self.shipments.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_grows_until_the_backlog_is_shipped() {
        let shipping = Shipping::default();
        let at = Duration::from_secs;
        shipping.went_well(0, false, at(10));
        assert_eq!(shipping.read(at(11)).lag, at(1));
        shipping.arrived();
        shipping.failed(70);
        let shown = Shown { left: 70, lag: at(10), is_up: false, shipments: 1, failures: 1 };
        assert_eq!(shipping.read(at(20)), shown);
        shipping.went_well(5, true, at(25));
        assert_eq!((shipping.read(at(30)).lag, shipping.read(at(30)).is_up), (at(20), true));
        shipping.went_well(3, false, at(29));
        assert_eq!((shipping.read(at(30)).lag, shipping.read(at(30)).left), (at(1), 3), "those are new");
    }
}

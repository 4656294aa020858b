//! A clock that follows the paused timer of a runtime, and whose wall clock jumps.

use crate::{Clock, Duration, START, Time};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Created inside of the runtime. Threads outside of it, such as those of a journal, see the time at which the runtime
/// last read it.
#[derive(Debug)]
pub(crate) struct VirtualClock {
    origin: Instant,
    /// The time before the runtime.
    before: Duration,
    /// The last read time, in microseconds.
    looked: AtomicU64,
    /// The microseconds by which the wall clock was set.
    set: AtomicI64,
}

impl VirtualClock {
    /// Creates a clock that continues after the time of an earlier runtime.
    pub(crate) fn after(before: Duration, set: i64) -> Self {
        let looked = AtomicU64::new(micros(before));
        VirtualClock { origin: Instant::now(), before, looked, set: AtomicI64::new(set) }
    }

    pub(crate) fn jump(&self, seconds: i64) {
        self.set.fetch_add(seconds * 1_000_000, Relaxed);
    }

    /// Returns the microseconds by which the wall clock was set so far.
    pub(crate) fn set(&self) -> i64 {
        self.set.load(Relaxed)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        let micros = START.plus(self.elapsed()).micros();
        Time::from_micros(micros.saturating_add_signed(self.set()))
    }

    fn elapsed(&self) -> Duration {
        if Handle::try_current().is_ok() {
            self.looked.fetch_max(micros(self.before + self.origin.elapsed()), Relaxed);
        }
        Duration::from_micros(self.looked.load(Relaxed))
    }
}

//! Time. Decisions that depend on time take a [`Time`] as an argument. Only a [`Clock`] creates one.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment on the UTC wall clock: microseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// Returns the moment `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Time(micros)
    }

    /// Returns the moment `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis.saturating_mul(1_000))
    }

    /// Returns the moment `secs` seconds after the Unix epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Time(secs.saturating_mul(1_000_000))
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns the whole milliseconds since the Unix epoch.
    pub const fn millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the whole seconds since the Unix epoch.
    pub const fn secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the number of the UTC minute, counted from the epoch.
    pub const fn minute(self) -> u64 {
        self.secs() / 60
    }

    /// Returns the number of the UTC hour, counted from the epoch.
    pub const fn hour(self) -> u64 {
        self.secs() / 3_600
    }

    /// Returns the number of the UTC day, counted from the epoch.
    pub const fn day(self) -> u64 {
        self.secs() / 86_400
    }

    /// Adds a duration; saturates at the largest number.
    pub const fn plus(self, by: Duration) -> Self {
        Time(self.0.saturating_add(by.as_micros() as u64))
    }

    /// Subtracts a duration; stops at the epoch.
    pub const fn minus(self, by: Duration) -> Self {
        Time(self.0.saturating_sub(by.as_micros() as u64))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later, because clocks can step back.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}s", self.secs(), self.0 % 1_000_000)
    }
}

/// A source of time. It has no timers: use those of the runtime to wait.
pub trait Clock: Send + Sync + Debug {
    /// Returns the wall clock time, for windows, expiry dates and records. It may step in either direction.
    fn now(&self) -> Time;

    /// Returns the time since a fixed moment, for latencies. It never steps back.
    fn elapsed(&self) -> Duration;
}

/// The clock of the operating system.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Creates a clock whose [`elapsed`](Clock::elapsed) starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn new() -> Self {
        SystemClock { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Time {
        // A clock that is set before 1970 counts as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(since.as_micros() as u64)
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that moves only on request, for tests and for replaying the past.
///
/// ```
/// use rpcgate_core::clock::{Clock, ManualClock, Time};
/// use std::time::Duration;
///
/// let clock = ManualClock::at(Time::from_secs(59));
/// assert_eq!(clock.now().minute(), 0);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now().minute(), 1);
/// ```
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicU64,
    elapsed: AtomicU64,
}

impl ManualClock {
    /// Creates a clock that shows `time`.
    pub fn at(time: Time) -> Self {
        ManualClock { now: AtomicU64::new(time.0), elapsed: AtomicU64::new(0) }
    }

    /// Moves both the wall clock and the elapsed time forward.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_micros() as u64, Relaxed);
        self.elapsed.fetch_add(by.as_micros() as u64, Relaxed);
    }

    /// Sets the wall clock to `time`, in either direction, as an administrator would.
    pub fn set(&self, time: Time) {
        self.now.store(time.0, Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.now.load(Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.elapsed.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_count_from_the_epoch() {
        let time = Time::from_secs(86_400 + 3_600 + 60 + 1);
        assert_eq!((time.day(), time.hour(), time.minute(), time.secs()), (1, 25, 1501, 90_061));
        assert_eq!(time.plus(Duration::from_millis(1_500)).millis(), 90_062_500);
    }

    #[test]
    fn a_step_back_is_not_a_negative_duration() {
        assert_eq!(Time::from_secs(1).since(Time::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn the_system_clock_moves_forward() {
        let clock = SystemClock::new();
        let before = clock.elapsed();
        assert!(clock.now() > Time::from_secs(1_700_000_000));
        assert!(clock.elapsed() >= before);
    }
}

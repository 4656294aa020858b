//! How often somebody may do something in a minute.

use governor::clock::Clock as Pace;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use rpcgate_core::clock::Clock;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// The attempts between two sweeps of what is not needed any more.
pub(super) const SWEEP: u32 = 256;
/// Places that are looked at before an attempt is refused: who sets a bound of a million must not pay for each of them
/// when somebody reaches it.
const LOOKED_AT: u32 = 1_000;

/// Somebody has tried too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many attempts, try again in {retry_after} s")]
pub struct TooOften {
    /// Seconds until the next attempt is admitted, at least one.
    pub retry_after: u32,
}

/// The clock's hand that never steps back, so that a change of the time of day neither locks out nor lets in.
#[derive(Clone, Debug)]
struct Hand(Arc<dyn Clock>);

impl Pace for Hand {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The places of all keys.
type Places<K> = RateLimiter<(K, u32), DashMapStateStore<(K, u32)>, Hand, NoOpMiddleware<Duration>>;

/// At most so many attempts of each key in any 60 seconds, which may be made at once.
///
/// One quota for all of them would give attempts back while the minute runs, and let nearly twice as many pass in it. So
/// a key has that many places instead, each with the quota of one attempt a minute, and takes one that is free. A place
/// is forgotten two minutes after it was taken.
pub struct MinuteLimit<K: Hash + Eq + Copy> {
    limiter: Places<K>,
    clock: Arc<dyn Clock>,
    /// The places of each key.
    places: u32,
    attempts: AtomicU32,
    remembered: AtomicUsize,
}

impl<K: Hash + Eq + Copy> fmt::Debug for MinuteLimit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinuteLimit").field("taken", &self.limiter.len()).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Copy> MinuteLimit<K> {
    /// Admits `per_minute` attempts, at least one.
    pub fn new(per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        let limiter =
            RateLimiter::dashmap_with_clock(Quota::per_minute(NonZeroU32::MIN), Hand(Arc::clone(&clock)));
        MinuteLimit {
            limiter,
            clock,
            places: per_minute.max(1),
            attempts: AtomicU32::new(0),
            remembered: AtomicUsize::new(0),
        }
    }

    /// Attempts that are remembered now, of all keys.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.limiter.len()
    }

    /// Attempts that were remembered at the last sweep, of all keys.
    pub fn remembered(&self) -> usize {
        self.remembered.load(Relaxed)
    }

    /// Counts an attempt of `key`.
    ///
    /// # Errors
    /// [`TooOften`] if there were too many before; this one is not counted then.
    pub fn admit(&self, key: K) -> Result<(), TooOften> {
        let number = self.attempts.fetch_add(1, Relaxed);
        if number % SWEEP == SWEEP - 1 {
            self.limiter.retain_recent();
            self.remembered.store(self.limiter.len(), Relaxed);
        }
        let mut soonest = MINUTE;
        // Not always from the first place on: of a thousand places the free one is found at once most of the time.
        for step in 0..self.places.min(LOOKED_AT) {
            let place = (u64::from(number) + u64::from(step)) % u64::from(self.places);
            match self.limiter.check_key(&(key, place as u32)) {
                Ok(()) => return Ok(()),
                Err(until) => soonest = soonest.min(until.wait_time_from(self.clock.elapsed())),
            }
        }
        let wait = soonest.as_micros().div_ceil(1_000_000);
        Err(TooOften { retry_after: u32::try_from(wait).unwrap_or(u32::MAX).max(1) })
    }
}

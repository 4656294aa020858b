//! Rate limits per minute.

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
/// The number of attempts between two sweeps of expired slots.
pub(super) const SWEEP: u32 = 256;
/// The number of slots that are tried before an attempt is refused. It keeps a refusal cheap when the limit is a
/// million.
const MAX_TRIED: u32 = 1_000;

/// The refusal of an attempt above the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many attempts, try again in {retry_after} s")]
pub struct TooOften {
    /// Seconds until the next attempt is admitted, at least one.
    pub retry_after: u32,
}

/// The monotonic clock, so that a change of the system time neither locks clients out nor admits them too early.
#[derive(Clone, Debug)]
struct Monotonic(Arc<dyn Clock>);

impl Pace for Monotonic {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

type Slots<K> = RateLimiter<(K, u32), DashMapStateStore<(K, u32)>, Monotonic, NoOpMiddleware<Duration>>;

/// A limit on the attempts of each key in any 60 seconds. The attempts may come in one burst.
///
/// One quota per key would refill during the minute and admit nearly twice the limit. So a key has as many slots as its
/// limit, each with a quota of one attempt per minute, and an attempt takes a free slot. A slot is forgotten two
/// minutes after it was taken.
pub struct MinuteLimit<K: Hash + Eq + Copy> {
    limiter: Slots<K>,
    clock: Arc<dyn Clock>,
    slots: u32,
    attempts: AtomicU32,
    remembered: AtomicUsize,
}

impl<K: Hash + Eq + Copy> fmt::Debug for MinuteLimit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinuteLimit").field("taken", &self.limiter.len()).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Copy> MinuteLimit<K> {
    /// Admits `per_minute` attempts (at least one) of each key.
    pub fn new(per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        let limiter = RateLimiter::dashmap_with_clock(
            Quota::per_minute(NonZeroU32::MIN),
            Monotonic(Arc::clone(&clock)),
        );
        MinuteLimit {
            limiter,
            clock,
            slots: per_minute.max(1),
            attempts: AtomicU32::new(0),
            remembered: AtomicUsize::new(0),
        }
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.limiter.len()
    }

    /// Returns the number of attempts of all keys that were remembered at the last sweep.
    pub fn remembered(&self) -> usize {
        self.remembered.load(Relaxed)
    }

    /// Counts an attempt of `key`.
    ///
    /// # Errors
    /// [`TooOften`] if the limit is reached. The refused attempt is not counted.
    pub fn admit(&self, key: K) -> Result<(), TooOften> {
        let number = self.attempts.fetch_add(1, Relaxed);
        if number % SWEEP == SWEEP - 1 {
            self.limiter.retain_recent();
            self.remembered.store(self.limiter.len(), Relaxed);
        }
        let mut soonest = MINUTE;
        // The search starts at a different slot each time, so with a thousand slots it usually finds a free one at
        // once.
        for step in 0..self.slots.min(MAX_TRIED) {
            let slot = (u64::from(number) + u64::from(step)) % u64::from(self.slots);
            match self.limiter.check_key(&(key, slot as u32)) {
                Ok(()) => return Ok(()),
                Err(until) => soonest = soonest.min(until.wait_time_from(self.clock.elapsed())),
            }
        }
        let wait = soonest.as_micros().div_ceil(1_000_000);
        Err(TooOften { retry_after: u32::try_from(wait).unwrap_or(u32::MAX).max(1) })
    }
}

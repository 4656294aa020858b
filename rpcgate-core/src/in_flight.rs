//! Calls in flight, grouped by start time. Shows whether all calls that began before some moment are over.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// The number of generations that are counted separately. While this many have calls in flight, no new one begins.
const GENERATIONS: usize = 64;

/// A counter of calls in flight by generation. A call belongs to the generation that was the newest when it began.
///
/// ```
/// use rpcgate_core::in_flight::InFlight;
/// use std::sync::Arc;
///
/// let calls = Arc::new(InFlight::default());
/// let call = calls.enter();
/// assert!(calls.advance(7) < 7, "a call that began earlier is in flight");
/// drop(call);
/// assert_eq!(calls.advance(9), 9, "all calls that began earlier are over");
/// ```
#[derive(Debug)]
pub struct InFlight {
    counts: [AtomicU64; GENERATIONS],
    newest: AtomicUsize,
    /// The start of each generation that may not be over, oldest first.
    begins: Mutex<VecDeque<i64>>,
}

/// A call in flight. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "dropped at once, it is over at once"]
pub struct InFlightCall {
    calls: Arc<InFlight>,
    generation: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            newest: AtomicUsize::new(0),
            begins: Mutex::new([i64::MIN].into()),
        }
    }
}

impl InFlight {
    /// Counts a call that begins now.
    pub fn enter(self: &Arc<Self>) -> InFlightCall {
        loop {
            let generation = self.newest.load(SeqCst);
            self.counts[generation].fetch_add(1, SeqCst);
            if self.newest.load(SeqCst) == generation {
                return InFlightCall { calls: self.clone(), generation };
            }
            // Another thread may have reported that generation as over in the meantime.
            self.counts[generation].fetch_sub(1, SeqCst);
        }
    }

    /// Begins a generation at `now`, unless too many are in flight. Returns the latest moment before which no call in
    /// flight began.
    pub fn advance(&self, now: i64) -> i64 {
        let mut begins = self.begins.lock();
        let mut newest = self.newest.load(SeqCst);
        if begins.len() < GENERATIONS {
            newest = (newest + 1) % GENERATIONS;
            begins.push_back(now);
            self.newest.store(newest, SeqCst);
        }
        while begins.len() > 1 {
            let oldest = (newest + GENERATIONS + 1 - begins.len()) % GENERATIONS;
            if self.counts[oldest].load(SeqCst) > 0 {
                break;
            }
            begins.pop_front();
        }
        begins.front().copied().unwrap_or(i64::MIN)
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        self.calls.counts[self.generation].fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Reliability).
    #[test]
    fn calls_that_began_before_the_oldest_one_in_flight_are_over() {
        let calls = Arc::new(InFlight::default());
        assert_eq!(calls.advance(1), 1);
        let long = calls.enter();
        let short = calls.enter();
        assert_eq!(calls.advance(2), 1);
        let later = calls.enter();
        drop(short);
        assert_eq!(calls.advance(3), 1);
        drop(long);
        assert_eq!(calls.advance(4), 2, "the later one began after 2");
        drop(later);
        assert_eq!(calls.advance(5), 5);
    }

    #[test]
    fn a_very_long_call_keeps_new_generations_from_beginning_and_no_call_is_forgotten() {
        let calls = Arc::new(InFlight::default());
        let long = calls.enter();
        for now in 0..1_000 {
            assert_eq!(calls.advance(now), i64::MIN);
        }
        let late = calls.enter();
        drop(long);
        let last = GENERATIONS as i64 - 2;
        assert_eq!(calls.advance(1_000), last, "where the last generation began that there was room for");
        drop(late);
        assert_eq!(calls.advance(1_001), 1_001);
    }

    #[test]
    fn calls_that_begin_while_generations_do_are_not_missed() {
        let calls = Arc::new(InFlight::default());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            drop(calls.enter());
                        }
                    })
                })
                .collect();
            let mut now = 0;
            while workers.iter().any(|worker| !worker.is_finished()) {
                now += 1;
                assert!(calls.advance(now) <= now);
            }
        });
        // If a worker was suspended for long, the generations may have run out. This call ends them.
        calls.advance(i64::MAX - 1);
        let end = i64::MAX;
        assert_eq!(calls.advance(end), end);
        assert!(calls.counts.iter().all(|count| count.load(SeqCst) == 0));
    }
}

//! The speed at which a client reads its answers. A client that stops reading, or nearly so, is cut, because it holds a
//! permit for the chain's calls, a connection to a node and memory.

use std::time::Duration;
use tokio::time::Instant;

/// The minimum speed of a client that reads an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadPace {
    /// The longest time without a byte taken.
    pub(super) timeout: Duration,
    /// The longest time below `rate`.
    pub(super) grace: Duration,
    /// Bytes per second, averaged over the time spent waiting for the client.
    pub(super) rate: u64,
}

/// The time spent waiting for a client since its answer began. Time spent waiting for a node does not count.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// The client's total bytes when its answer began.
    first: u64,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    /// The start of the present wait for the client.
    blocked: Option<Instant>,
    /// The time of earlier waits.
    waited: Duration,
    /// The time when the client last took a byte.
    progress: Instant,
    /// The client's total bytes at the last note.
    last: u64,
}

impl Stall {
    /// Notes a wait for the client, and the client's total bytes. The clock is read only when it matters.
    #[inline]
    pub(super) fn note(&mut self, is_blocked: bool, taken: u64) {
        if is_blocked || self.current.as_ref().is_some_and(|current| current.blocked.is_some()) {
            self.note_at(Instant::now(), is_blocked, taken);
        }
    }

    fn note_at(&mut self, now: Instant, is_blocked: bool, taken: u64) {
        let current = self.current.get_or_insert(Current {
            blocked: None,
            waited: Duration::ZERO,
            progress: now,
            last: taken,
        });
        if taken != current.last {
            (current.last, current.progress) = (taken, now);
        }
        match (current.blocked, is_blocked) {
            (None, true) => {
                // Earlier time does not count: the connection did not wait for the client.
                current.progress = now;
                current.blocked = Some(now);
            }
            (Some(since), false) => {
                current.waited += now - since;
                current.blocked = None;
            }
            _ => {}
        }
    }

    /// Starts again after an answer, with `taken` as the client's total bytes.
    pub(super) fn clear(&mut self, taken: u64) {
        *self = Stall { first: taken, current: None };
    }

    /// Returns the deadline of a client that takes nothing more; `None` while the connection does not wait for it.
    #[inline]
    pub(super) fn deadline(&self, pace: &ReadPace) -> Option<Instant> {
        let current = self.current.as_ref()?;
        Some(current.deadline(current.blocked?, self.first, pace))
    }
}

impl Current {
    /// Returns the deadline of a wait since `since`. `first` is the client's total bytes when its answer began.
    fn deadline(&self, since: Instant, first: u64, pace: &ReadPace) -> Instant {
        let earned =
            self.last.saturating_sub(first).checked_div(pace.rate).map_or(Duration::MAX, Duration::from_secs);
        let left = pace.grace.max(earned).saturating_sub(self.waited);
        let by_mean = since.checked_add(left);
        let by_progress = self.progress + pace.timeout;
        by_mean.map_or(by_progress, |by_mean| by_mean.min(by_progress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const PACE: ReadPace =
        ReadPace { timeout: Duration::from_secs(30), grace: Duration::from_secs(10), rate: 1_024 };

    fn left(stall: &Stall) -> Option<u64> {
        stall.deadline(&PACE).map(|at| (at - Instant::now()).as_secs())
    }

    async fn pass(secs: u64) {
        advance(Duration::from_secs(secs)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_has_the_grace_and_one_that_took_much_the_timeout() {
        let mut stall = Stall::default();
        stall.clear(10);
        stall.note(false, 10);
        assert_eq!(left(&stall), None);
        stall.note(true, 10);
        assert_eq!(left(&stall), Some(10));
        pass(4).await;
        stall.note(true, 10 + 1_000 * 1_024);
        assert_eq!(left(&stall), Some(30));
        pass(29).await;
        assert_eq!(left(&stall), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn occasional_bytes_are_below_the_minimum_average_rate() {
        let mut stall = Stall::default();
        stall.note(true, 0);
        for byte in 1..=9 {
            pass(1).await;
            stall.note(true, byte);
        }
        assert_eq!(left(&stall), Some(1));
        let mut steady = Stall::default();
        steady.note(true, 0);
        for second in 1..=100 {
            pass(1).await;
            steady.note(true, second * 2_048);
            assert!(left(&steady).is_some_and(|left| left > 0), "{second}");
        }
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_node_takes_does_not_count() {
        let mut stall = Stall::default();
        stall.note(true, 0);
        pass(5).await;
        stall.note(false, 100);
        pass(500).await;
        assert_eq!(left(&stall), None);
        stall.note(true, 100);
        assert_eq!(left(&stall), Some(5), "earlier waiting time counts");
        stall.clear(100);
        stall.note(true, 100);
        assert_eq!(left(&stall), Some(10));
    }
}

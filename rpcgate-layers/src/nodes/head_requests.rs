//! Calls that wait until a node is known to have reached a height.

use std::pin::pin;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The minimum time between a round of probes and an extra round that clients trigger. It bounds the probe rate,
/// whatever heights clients name.
const LEAST_BETWEEN_PROBES: Duration = Duration::from_millis(250);

/// The signals between calls that wait for a height and the probes that report it.
#[derive(Debug, Default)]
pub(super) struct HeadRequests {
    requested: Notify,
    probed: Notify,
}

impl HeadRequests {
    /// Returns the first `Some` that `reached` returns. Checks it now and after every round of probes, for at most a
    /// second.
    pub(super) async fn wait<T>(&self, reached: impl Fn() -> Option<T>) -> Option<T> {
        let waiting = async {
            loop {
                let mut probed = pin!(self.probed.notified());
                // Enabled before the check, so that no round is missed.
                probed.as_mut().enable();
                if let Some(found) = reached() {
                    return found;
                }
                self.requested.notify_one();
                probed.await;
            }
        };
        match timeout(LONGEST_WAIT, waiting).await {
            Ok(found) => Some(found),
            Err(_) => reached(),
        }
    }

    /// Completes when probes are requested, and not before the minimum time has passed.
    pub(super) async fn requested(&self) {
        sleep(LEAST_BETWEEN_PROBES).await;
        self.requested.notified().await;
    }

    pub(super) fn notify_probed(&self) {
        self.probed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use tokio::time::Instant;

    fn above(height: &AtomicU64, least: u64) -> Option<u64> {
        Some(height.load(Relaxed)).filter(|height| *height >= least)
    }

    async fn probe_on_demand(requests: &HeadRequests, rounds: &AtomicU64) {
        loop {
            requests.requested().await;
            rounds.fetch_add(1, Relaxed);
            requests.notify_probed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_the_round_that_shows_its_height_and_asks_for_it() {
        let requests = HeadRequests::default();
        let height = AtomicU64::new(1);
        let rounds = probe_on_demand(&requests, &height);
        let waits = async {
            let both = tokio::join!(requests.wait(|| above(&height, 3)), requests.wait(|| above(&height, 2)));
            assert_eq!(both, (Some(3), Some(2)));
        };
        tokio::select! { () = rounds => panic!("it never ends"), () = waits => {} }
        assert_eq!(requests.wait(|| above(&height, 3)).await, Some(3), "it is known");
    }

    // Shows (Nodes and cache).
    #[tokio::test(start_paused = true)]
    async fn an_unreached_height_is_waited_for_one_second_with_at_most_four_probes() {
        let requests = HeadRequests::default();
        let probes = AtomicU64::new(0);
        let began = Instant::now();
        let rounds = probe_on_demand(&requests, &probes);
        let waits = async {
            let crowd = (0..50).map(|_| requests.wait(|| None::<u64>));
            assert!(futures_util::future::join_all(crowd).await.iter().all(Option::is_none));
        };
        tokio::select! { () = rounds => panic!("it never ends"), () = waits => {} }
        assert_eq!(began.elapsed(), LONGEST_WAIT);
        assert!((1..=4).contains(&probes.load(Relaxed)));
    }
}

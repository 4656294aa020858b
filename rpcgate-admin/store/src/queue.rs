//! The queue of calls that wait for a database connection.
//!
//! As many calls run as there are connections, and a bounded number waits; any further call fails at once. A call's
//! deadline begins when it has a connection: many callers do not mean that the database is down, and are no reason to
//! reconnect.

use super::error::StoreError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

pub(super) const MAX_WAITING: usize = 128;

const CLOSED: &str = "its connections are closed";

#[derive(Debug)]
pub(super) struct Queue {
    connections: Arc<Semaphore>,
    max_waiting: usize,
    waiting: AtomicUsize,
}

impl Queue {
    pub(super) fn new(connections: u32) -> Self {
        Queue::with_limit(connections, MAX_WAITING)
    }

    pub(super) fn with_limit(connections: u32, max_waiting: usize) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let connections = connections.min(Semaphore::MAX_PERMITS);
        let connections = Arc::new(Semaphore::new(connections));
        Queue { connections, max_waiting, waiting: AtomicUsize::new(0) }
    }

    /// Waits up to `timeout` for a free connection.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if too many calls wait already, or if no connection became free in time.
    pub(super) async fn wait(&self, timeout: Duration) -> Result<OwnedSemaphorePermit, StoreError> {
        match self.connections.clone().try_acquire_owned() {
            Ok(free) => return Ok(free),
            Err(TryAcquireError::Closed) => return Err(StoreError::Unavailable(CLOSED.into())),
            Err(TryAcquireError::NoPermits) => {}
        }
        let _waiting = WaitingGuard::join(&self.waiting, self.max_waiting)?;
        self.wait_beyond_bound(timeout).await
    }

    /// Waits up to `timeout` for a free connection regardless of the queue's limit, for a call that many callers share
    /// and that runs once at a time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if no connection became free in time.
    pub(super) async fn wait_beyond_bound(
        &self,
        timeout: Duration,
    ) -> Result<OwnedSemaphorePermit, StoreError> {
        match tokio::time::timeout(timeout, self.connections.clone().acquire_owned()).await {
            Ok(free) => free.map_err(|_| StoreError::Unavailable(CLOSED.into())),
            Err(_) => {
                Err(StoreError::Unavailable(format!("none of its connections was free within {timeout:?}")))
            }
        }
    }
}

struct WaitingGuard<'q>(&'q AtomicUsize);

impl<'q> WaitingGuard<'q> {
    fn join(waiting: &'q AtomicUsize, max: usize) -> Result<Self, StoreError> {
        let join = |waiting| (waiting < max).then_some(waiting + 1);
        match waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, join) {
            Ok(_) => Ok(WaitingGuard(waiting)),
            Err(_) => Err(StoreError::Unavailable(format!("{max} calls wait for it already"))),
        }
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const TIMEOUT: Duration = Duration::from_millis(450);

    // Shows (Management).
    // Shows (Reliability).
    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_at_once_and_a_dropped_call_frees_its_slot() {
        let queue = Queue::new(1);
        let held = queue.wait(TIMEOUT).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(queue.wait(TIMEOUT))).collect();
        for call in &mut waiting {
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        let Poll::Ready(Err(full)) = pin!(queue.wait(TIMEOUT)).poll(&mut context) else {
            panic!("no answer")
        };
        assert_eq!(full.to_string(), "the database cannot be reached now: 128 calls wait for it already");
        waiting.pop();
        assert!(pin!(queue.wait(TIMEOUT)).poll(&mut context).is_pending());
        drop(held);
        assert!(waiting[0].as_mut().poll(&mut context).is_ready(), "the first to come is the first to go");
    }

    #[tokio::test(start_paused = true)]
    async fn no_call_waits_longer_than_its_timeout() {
        let queue = Queue::new(1);
        let _held = queue.wait(TIMEOUT).await.unwrap();
        let late = queue.wait(TIMEOUT).await.unwrap_err().to_string();
        assert_eq!(late, "the database cannot be reached now: none of its connections was free within 450ms");
    }
}

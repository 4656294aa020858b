//! Who waits for a database's connections.
//!
//! As many calls are under way as there are connections, and a bounded number waits. Whoever comes then hears at once
//! that it should come back. So a call's deadline begins when there is a connection for it: that many callers come at
//! once says nothing about the database, and is no reason to connect to it anew.

use super::error::StoreError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Calls that wait for a connection at once.
pub(super) const MOST_WAITING: usize = 128;

/// The calls that wait for one of some connections, in the order in which they came.
#[derive(Debug)]
pub(super) struct Queue {
    connections: Arc<Semaphore>,
    most_waiting: usize,
    waiting: AtomicUsize,
}

impl Queue {
    pub(super) fn new(connections: u32) -> Self {
        Queue::of(connections, MOST_WAITING)
    }

    /// One in which at most `most_waiting` calls wait.
    pub(super) fn of(connections: u32, most_waiting: usize) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let connections = connections.min(Semaphore::MAX_PERMITS);
        let connections = Arc::new(Semaphore::new(connections));
        Queue { connections, most_waiting, waiting: AtomicUsize::new(0) }
    }

    /// Waits for a connection that nobody uses, as long as `patience` lasts.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if as many as may wait do so already, or if there was none in time.
    pub(super) async fn wait(&self, patience: Duration) -> Result<OwnedSemaphorePermit, StoreError> {
        let closed = || StoreError::Unavailable("its connections are closed".into());
        match self.connections.clone().try_acquire_owned() {
            Ok(free) => return Ok(free),
            Err(TryAcquireError::Closed) => return Err(closed()),
            Err(TryAcquireError::NoPermits) => {}
        }
        let waiting = Waiting::join(&self.waiting, self.most_waiting)?;
        let free = tokio::time::timeout(patience, self.connections.clone().acquire_owned()).await;
        drop(waiting);
        let Ok(free) = free else {
            return Err(StoreError::Unavailable(format!(
                "none of its connections was free within {patience:?}"
            )));
        };
        free.map_err(|_| closed())
    }
}

/// One of those that wait.
struct Waiting<'q>(&'q AtomicUsize);

impl<'q> Waiting<'q> {
    fn join(waiting: &'q AtomicUsize, most: usize) -> Result<Self, StoreError> {
        let join = |waiting| (waiting < most).then_some(waiting + 1);
        match waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, join) {
            Ok(_) => Ok(Waiting(waiting)),
            Err(_) => Err(StoreError::Unavailable(format!("{most} calls wait for it already"))),
        }
    }
}

impl Drop for Waiting<'_> {
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

    const PATIENCE: Duration = Duration::from_millis(450);

    #[tokio::test(start_paused = true)]
    async fn who_finds_the_queue_full_is_told_at_once_and_who_leaves_makes_room() {
        let queue = Queue::new(1);
        let held = queue.wait(PATIENCE).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> = (0..MOST_WAITING).map(|_| Box::pin(queue.wait(PATIENCE))).collect();
        for call in &mut waiting {
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        let Poll::Ready(Err(full)) = pin!(queue.wait(PATIENCE)).poll(&mut context) else {
            panic!("no answer")
        };
        assert_eq!(full.to_string(), "the database cannot be reached now: 128 calls wait for it already");
        waiting.pop();
        assert!(pin!(queue.wait(PATIENCE)).poll(&mut context).is_pending());
        drop(held);
        assert!(waiting[0].as_mut().poll(&mut context).is_ready(), "the first to come is the first to go");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_its_patience() {
        let queue = Queue::new(1);
        let _held = queue.wait(PATIENCE).await.unwrap();
        let late = queue.wait(PATIENCE).await.unwrap_err().to_string();
        assert_eq!(late, "the database cannot be reached now: none of its connections was free within 450ms");
    }
}

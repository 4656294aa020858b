//! A pool of clones of an inner service. A layer that waits before it calls its inner service takes a clone when the
//! wait starts, instead of cloning the whole stack for each request.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A service and its idle clones.
pub struct ServicePool<S> {
    idle: Arc<Mutex<Vec<S>>>,
    model: S,
}

/// The maximum number of idle clones; more are dropped.
const IDLE_LIMIT: usize = 8;

impl<S: Clone> ServicePool<S> {
    /// Creates a pool of clones of `service`.
    pub fn new(service: S) -> Self {
        ServicePool { idle: Arc::default(), model: service }
    }

    /// Takes a clone. It returns to the pool when dropped.
    pub fn get(&self) -> PooledService<S> {
        let service = self.idle.lock().pop().unwrap_or_else(|| self.model.clone());
        PooledService { service: Some(service), home: self.idle.clone(), is_idle: true }
    }
}

impl<S: Clone> Clone for ServicePool<S> {
    /// Creates a new pool. A clone serves another connection, and the two must not wait for each other's lock.
    fn clone(&self) -> Self {
        ServicePool::new(self.model.clone())
    }
}

impl<S> fmt::Debug for ServicePool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServicePool")
    }
}

/// A service taken from a pool. Like any tower service it must be polled ready before it is called.
pub struct PooledService<S> {
    service: Option<S>,
    home: Arc<Mutex<Vec<S>>>,
    /// True if the service holds nothing for a future call. A service that was polled and not called may hold a permit,
    /// or a place in the queue for one, and in the pool it would withhold that from all others.
    is_idle: bool,
}

impl<S> PooledService<S> {
    /// Polls the service ready.
    ///
    /// # Errors
    /// Returns the error of the service, which then does not return to the pool.
    pub fn poll_ready<R>(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>>
    where
        S: Service<R>,
    {
        self.is_idle = false;
        self.service.as_mut().map_or(Poll::Pending, |service| service.poll_ready(cx))
    }

    /// Calls the service, which must have been polled ready, and returns it to the pool.
    pub fn call<R>(mut self, request: R) -> Option<S::Future>
    where
        S: Service<R>,
    {
        let response = self.service.as_mut().map(|service| service.call(request));
        self.is_idle = true;
        response
    }
}

impl<S> Drop for PooledService<S> {
    fn drop(&mut self) {
        if let Some(service) = self.service.take()
            && self.is_idle
        {
            let mut idle = self.home.lock();
            if idle.len() < IDLE_LIMIT {
                idle.push(service);
            }
        }
    }
}

impl<S> fmt::Debug for PooledService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledService")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Waker;

    #[derive(Debug, Default)]
    struct Counted(Arc<AtomicUsize>);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Relaxed);
            Counted(self.0.clone())
        }
    }

    impl Service<()> for Counted {
        type Response = ();
        type Error = Infallible;
        type Future = Ready<Result<(), Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            ready(Ok(()))
        }
    }

    fn poll_ready(service: &mut PooledService<Counted>) -> bool {
        service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn one_request_after_another_needs_one_clone() {
        let clones = Counted::default();
        let pool = ServicePool::new(Counted(clones.0.clone()));
        for _ in 0..10 {
            let mut service = pool.get();
            assert!(poll_ready(&mut service));
            assert!(service.call(()).is_some());
        }
        assert_eq!(clones.0.load(Relaxed), 1);
        let overlapping = (pool.get(), pool.get());
        drop(overlapping);
        assert_eq!(clones.0.load(Relaxed), 2);
    }

    #[test]
    fn a_service_that_was_polled_and_not_called_does_not_return_with_its_permit() {
        let clones = Counted::default();
        let pool = ServicePool::new(Counted(clones.0.clone()));
        let mut service = pool.get();
        assert!(poll_ready(&mut service));
        drop(service);
        drop(pool.get());
        assert_eq!(clones.0.load(Relaxed), 2);
    }
}

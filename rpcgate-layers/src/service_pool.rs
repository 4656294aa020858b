//! A pool of clones of an inner service. A layer that waits before it calls its inner service takes one from the pool
//! when it starts to wait, instead of cloning the whole stack for each request.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// A service and its idle clones.
pub struct ServicePool<S> {
    idle: Arc<Mutex<Vec<S>>>,
    model: S,
}

/// Idle clones beyond this many are dropped.
const KEPT: usize = 8;

impl<S: Clone> ServicePool<S> {
    /// A pool of clones of `service`.
    pub fn new(service: S) -> Self {
        ServicePool { idle: Arc::default(), model: service }
    }

    /// Takes a clone. It returns to the pool when the value is dropped.
    pub fn get(&self) -> PooledService<S> {
        let service = self.idle.lock().pop().unwrap_or_else(|| self.model.clone());
        PooledService { service: Some(service), home: self.idle.clone() }
    }
}

impl<S: Clone> Clone for ServicePool<S> {
    /// A new pool: a clone serves another connection, and the two must not wait for each other's lock.
    fn clone(&self) -> Self {
        ServicePool::new(self.model.clone())
    }
}

impl<S> fmt::Debug for ServicePool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServicePool")
    }
}

/// A service taken from a pool.
pub struct PooledService<S> {
    service: Option<S>,
    home: Arc<Mutex<Vec<S>>>,
}

impl<S> PooledService<S> {
    /// Calls `act` with the service and returns the service to the pool.
    pub fn call_with<T>(mut self, act: impl FnOnce(&mut S) -> T) -> Option<T> {
        self.service.as_mut().map(act)
    }
}

impl<S> Drop for PooledService<S> {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            let mut idle = self.home.lock();
            if idle.len() < KEPT {
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

    #[derive(Debug, Default)]
    struct Counted(Arc<std::sync::atomic::AtomicUsize>);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Counted(self.0.clone())
        }
    }

    #[test]
    fn one_request_after_another_needs_one_copy() {
        let clones = Counted::default();
        let pool = ServicePool::new(Counted(clones.0.clone()));
        for _ in 0..10 {
            assert_eq!(pool.get().call_with(|_| 1), Some(1));
        }
        assert_eq!(clones.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        let overlapping = (pool.get(), pool.get());
        drop(overlapping);
        assert_eq!(clones.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    }
}

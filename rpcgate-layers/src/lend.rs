//! An inner service that is lent out for the one moment a call is handed to it, so that a station which has to wait
//! before that moment needs no copy of the whole stack for each request.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// A service and, while requests overlap, its copies.
pub struct Lender<S> {
    idle: Arc<Mutex<Vec<S>>>,
    model: S,
}

/// Copies kept beyond this many are dropped again.
const KEPT: usize = 8;

impl<S: Clone> Lender<S> {
    /// Lends `service`.
    pub fn new(service: S) -> Self {
        Lender { idle: Arc::default(), model: service }
    }

    /// A copy to use now, or a little later: it comes back when the loan is dropped.
    pub fn lend(&self) -> Loan<S> {
        let service = self.idle.lock().pop().unwrap_or_else(|| self.model.clone());
        Loan { service: Some(service), home: self.idle.clone() }
    }
}

impl<S: Clone> Clone for Lender<S> {
    /// A lender of its own: a clone serves another connection, and the two must not wait for each other.
    fn clone(&self) -> Self {
        Lender::new(self.model.clone())
    }
}

impl<S> fmt::Debug for Lender<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lender")
    }
}

/// A service on loan.
pub struct Loan<S> {
    service: Option<S>,
    home: Arc<Mutex<Vec<S>>>,
}

impl<S> Loan<S> {
    /// Uses the service, if it has not been used yet, and gives it back.
    pub fn spend<T>(mut self, act: impl FnOnce(&mut S) -> T) -> Option<T> {
        self.service.as_mut().map(act)
    }
}

impl<S> Drop for Loan<S> {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            let mut idle = self.home.lock();
            if idle.len() < KEPT {
                idle.push(service);
            }
        }
    }
}

impl<S> fmt::Debug for Loan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loan")
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
        let lender = Lender::new(Counted(clones.0.clone()));
        for _ in 0..10 {
            assert_eq!(lender.lend().spend(|_| 1), Some(1));
        }
        assert_eq!(clones.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        let overlapping = (lender.lend(), lender.lend());
        drop(overlapping);
        assert_eq!(clones.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    }
}

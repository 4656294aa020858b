//! Traits for a gateway's state, with in-memory implementations and, with the feature `suite`, conformance suites.

pub mod call_observer;
pub mod changes;
pub mod counters;
pub mod directory;
pub mod reply_store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
pub mod usage_observer;
pub mod usage_sink;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future from a backend that has to wait.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer that is available now or later.
pub enum Answer<T> {
    /// Available now. This is the usual case, and it needs no allocation.
    Now(T),
    /// Available later.
    Pending(BoxFuture<'static, T>),
}

impl<T> Answer<T> {
    /// Waits for the answer if it is pending.
    pub async fn wait(self) -> T {
        match self {
            Answer::Now(answer) => answer,
            Answer::Pending(future) => future.await,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Answer::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// The error if the store behind a backend cannot be reached now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be reached now")
    }
}

impl std::error::Error for Unavailable {}

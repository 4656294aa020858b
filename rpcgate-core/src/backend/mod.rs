//! The backends: what a gateway keeps somewhere. Each is a trait with an in-memory twin that is good enough for one
//! process, and with the `suite` feature a conformance suite that every other backend runs too.

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

/// A future that a backend returns when it has to wait.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer that is there, or on its way.
pub enum Answer<T> {
    /// There. This is the rule on the stack; it costs no allocation.
    Now(T),
    /// On its way.
    Pending(BoxFuture<'static, T>),
}

impl<T> Answer<T> {
    /// The answer itself, waited for if need be.
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

/// The place behind a backend cannot be reached now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be reached now")
    }
}

impl std::error::Error for Unavailable {}

//! The seams: what a gateway keeps somewhere. Each is a trait with an in-memory twin that is good enough for one
//! process, and with the `suite` feature a conformance suite that every other backend runs too.

pub mod changes;
pub mod counters;
pub mod directory;
pub mod ledger;
pub mod reply_store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
pub mod witness;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future that a seam returns when it has to wait.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer that is there, or on its way.
pub enum Answer<T> {
    /// There. This is the rule on the road; it costs no allocation.
    Now(T),
    /// On its way.
    Later(Later<'static, T>),
}

impl<T> Answer<T> {
    /// The answer itself, waited for if need be.
    pub async fn wait(self) -> T {
        match self {
            Answer::Now(answer) => answer,
            Answer::Later(future) => future.await,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Answer::Later(_) => f.write_str("Later"),
        }
    }
}

/// The place behind a seam cannot be reached now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Away;

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be reached now")
    }
}

impl std::error::Error for Away {}

//! The directory of API keys and their callers.

#[cfg(any(test, feature = "secrets"))]
mod memory;

use super::{BoxFuture, Unavailable};
use crate::caller::Caller;
use std::fmt;
use std::sync::Arc;

#[cfg(any(test, feature = "secrets"))]
pub use self::memory::MemoryDirectory;

/// The state of a key in a directory.
#[derive(Clone, Debug)]
pub enum KeyLookup {
    /// The key is valid.
    Known(Arc<Caller>),
    /// The key was revoked. The refusal is counted for the project of its caller.
    Revoked(Arc<Caller>),
    /// The key does not exist.
    Unknown,
    /// Not in memory: call [`fetch`](Directory::fetch).
    Miss,
}

/// A directory of callers by key.
pub trait Directory: Send + Sync + fmt::Debug {
    /// Returns the state of `key` without waiting.
    fn peek(&self, key: &str) -> KeyLookup;

    /// Looks `key` up in the key store. Never returns [`KeyLookup::Miss`]. Default: the result of `peek`, for a directory
    /// that has all keys in memory; a miss is then an error.
    ///
    /// # Errors
    /// Returns [`Unavailable`] if the store cannot be reached.
    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        let found = match self.peek(key) {
            KeyLookup::Miss => Err(Unavailable),
            found => Ok(found),
        };
        Box::pin(std::future::ready(found))
    }

    /// Returns the caller of requests without a key; `None` if they are refused.
    fn anonymous(&self) -> Option<Arc<Caller>> {
        None
    }
}

/// A directory that accepts every request, with any key or none, as the same caller.
#[derive(Debug)]
pub struct OpenDirectory(Arc<Caller>);

impl OpenDirectory {
    /// Creates a directory that attributes all requests to `caller`.
    pub fn new(caller: Caller) -> Self {
        OpenDirectory(Arc::new(caller))
    }
}

impl Directory for OpenDirectory {
    fn peek(&self, _: &str) -> KeyLookup {
        KeyLookup::Known(self.0.clone())
    }

    fn anonymous(&self) -> Option<Arc<Caller>> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Tier};
    use std::task::{Context, Poll, Waker};

    /// A directory with one key in memory that forgot to write a fetch of its own.
    #[derive(Debug)]
    struct OneKey;

    impl Directory for OneKey {
        fn peek(&self, key: &str) -> KeyLookup {
            match key {
                "known" => KeyLookup::Known(Arc::new(Caller::of(1, Plan::of(Tier::Free)))),
                "revoked elsewhere" => KeyLookup::Unknown,
                _ => KeyLookup::Miss,
            }
        }
    }

    #[test]
    fn the_default_fetch_refuses_no_key_that_it_cannot_look_up() {
        let fetch = |key| match OneKey.fetch(key).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found,
            Poll::Pending => panic!("the default does not wait"),
        };
        assert!(matches!(fetch("known"), Ok(KeyLookup::Known(_))));
        assert!(matches!(fetch("revoked elsewhere"), Ok(KeyLookup::Unknown)));
        assert!(matches!(fetch("other"), Err(Unavailable)));
    }
}

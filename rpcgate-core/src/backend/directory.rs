//! The directory: from an API key to its caller.

#[cfg(any(test, feature = "secrets"))]
mod memory;

use super::{BoxFuture, Unavailable};
use crate::caller::Caller;
use std::fmt;
use std::sync::Arc;

#[cfg(any(test, feature = "secrets"))]
pub use self::memory::MemoryDirectory;

/// What a directory knows about a key.
#[derive(Clone, Debug)]
pub enum Peek {
    /// The key is valid.
    Known(Arc<Caller>),
    /// The key was revoked. Its caller is still returned, so that the refusal can be counted for its project.
    Revoked(Arc<Caller>),
    /// There is no such key.
    Unknown,
    /// Not in memory: call [`fetch`](Directory::fetch).
    Miss,
}

/// Finds the caller of a key.
pub trait Directory: Send + Sync + fmt::Debug {
    /// What is known about `key` without waiting.
    fn peek(&self, key: &str) -> Peek;

    /// Looks `key` up where keys are stored. Never returns [`Peek::Miss`].
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be reached.
    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Peek, Unavailable>>;
}

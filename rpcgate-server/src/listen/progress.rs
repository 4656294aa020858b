//! How far the answer on an HTTP/2 stream has come.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How far the answer on a stream has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    taken: AtomicU64,
    blocked: AtomicBool,
}

impl Progress {
    /// Notes that the stream waits for the client to take the next piece.
    pub(super) fn offer(&self) {
        self.blocked.store(true, Relaxed);
    }

    /// Notes that the client took `bytes` bytes.
    pub(super) fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes that the stream does not wait for the client: it waits for a node, or the answer is complete.
    pub(super) fn wait(&self) {
        self.blocked.store(false, Relaxed);
    }

    /// Whether the stream waits for the client, and how many bytes the client has taken.
    pub(super) fn taken(&self) -> (bool, u64) {
        (self.blocked.load(Relaxed), self.taken.load(Relaxed))
    }
}

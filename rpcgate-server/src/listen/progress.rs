//! The progress of the answer on an HTTP/2 stream.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(super) struct Progress {
    taken: AtomicU64,
    blocked: AtomicBool,
}

impl Progress {
    /// Notes that the stream waits for the client to take the next piece.
    pub(super) fn block(&self) {
        self.blocked.store(true, Relaxed);
    }

    pub(super) fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes that the stream does not wait for the client: it waits for a node, or the answer is complete.
    pub(super) fn wait(&self) {
        self.blocked.store(false, Relaxed);
    }

    /// Returns whether the stream waits for the client, and the bytes that the client has taken.
    pub(super) fn taken(&self) -> (bool, u64) {
        (self.blocked.load(Relaxed), self.taken.load(Relaxed))
    }
}

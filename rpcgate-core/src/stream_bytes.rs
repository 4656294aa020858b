//! The byte counts of a stream, shared by its tally and the tallies of its messages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct StreamBytes {
    pub(crate) to_node: AtomicU64,
    pub(crate) to_client: AtomicU64,
}

impl StreamBytes {
    pub(crate) fn add(&self, to_node: u32, to_client: u32) {
        self.to_node.fetch_add(to_node.into(), Relaxed);
        self.to_client.fetch_add(to_client.into(), Relaxed);
    }
}

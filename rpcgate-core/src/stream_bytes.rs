//! The bytes of a stream, which its tally and those of its parts share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes of a stream, as the records of its parts have them.
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

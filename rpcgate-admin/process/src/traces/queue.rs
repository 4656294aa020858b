//! The queue of finished items, and the counts of spans.

use opentelemetry_sdk::trace::SpanData;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// A finished item with spans.
pub trait SpanSource: Send + 'static {
    /// Appends its spans to `spans`.
    fn write(self, spans: &mut Vec<SpanData>);
}

/// The number of spans by result.
#[derive(Debug, Default)]
pub struct TraceCounts {
    pub(super) sent: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) failed: AtomicU64,
    dropped: AtomicU64,
}

impl TraceCounts {
    /// Returns the spans that were sent, were rejected by the collector, could not be sent, and did not fit into the
    /// queue.
    pub fn read(&self) -> [(&'static str, u64); 4] {
        [
            ("sent", self.sent.load(Relaxed)),
            ("rejected", self.rejected.load(Relaxed)),
            ("failed", self.failed.load(Relaxed)),
            ("dropped", self.dropped.load(Relaxed)),
        ]
    }
}

/// A bounded queue. Clones share it.
pub struct SpanQueue<T> {
    sender: Sender<T>,
    counts: Arc<TraceCounts>,
}

impl<T> Clone for SpanQueue<T> {
    fn clone(&self) -> Self {
        SpanQueue { sender: self.sender.clone(), counts: self.counts.clone() }
    }
}

impl<T> fmt::Debug for SpanQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanQueue").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<T: SpanSource> SpanQueue<T> {
    pub(super) fn new(capacity: usize) -> (Self, Receiver<T>) {
        let (sender, receiver) = channel(capacity.max(1));
        (SpanQueue { sender, counts: Arc::default() }, receiver)
    }

    /// Queues the item that `make` creates, which has `spans` spans. If the queue is full, does not call `make` and
    /// counts the spans as dropped.
    pub fn push(&self, spans: usize, make: impl FnOnce() -> T) {
        match self.sender.try_reserve() {
            Ok(slot) => slot.send(make()),
            Err(_) => {
                self.counts.dropped.fetch_add(spans as u64, Relaxed);
            }
        }
    }

    /// Returns the counts of spans.
    pub fn counts(&self) -> &Arc<TraceCounts> {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl SpanSource for Silent {
        fn write(self, _: &mut Vec<SpanData>) {}
    }

    #[test]
    fn a_trace_beyond_the_capacity_is_not_built_and_its_spans_are_counted() {
        let (queue, receiver) = SpanQueue::new(2);
        let mut made = 0;
        for _ in 0..5 {
            queue.push(3, || {
                made += 1;
                Silent
            });
        }
        assert_eq!((made, queue.counts().read()[3]), (2, ("dropped", 9)));
        drop(receiver);
        queue.clone().push(1, || panic!("nobody takes it"));
        assert_eq!(queue.counts().read()[3], ("dropped", 10));
    }
}

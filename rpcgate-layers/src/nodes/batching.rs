//! Batches: single reads of several clients that are sent to a node in one JSON-RPC array.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The policy for sending single reads of several clients to a node in one array, if the chain supports arrays.
///
/// Never batched are broadcasts, heavy calls, large calls, and calls that are sent to an archive as their second node.
///
/// ```
/// use rpcgate_layers::nodes::{BatchingPolicy, PoolLimits};
/// use std::time::Duration;
///
/// let batching = BatchingPolicy::default().with_wait(Duration::from_millis(2));
/// let limits = PoolLimits::default().with_batching(Some(batching));
/// assert_eq!(limits.batching.map(|batching| batching.max_calls), Some(8));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BatchingPolicy {
    /// The time that a call waits for others. Zero: until the runtime has polled the calls that are ready.
    pub wait: Duration,
    /// The maximum number of calls in an array.
    pub max_calls: usize,
    /// The timeout of an array. After it, each call is sent alone, within the [budget of
    /// retries](crate::nodes::RetryPolicy::budget), so that no call is delayed for longer by the other calls of its
    /// array.
    pub timeout: Duration,
}

impl Default for BatchingPolicy {
    /// Returns a policy without a wait, with at most 8 calls and a timeout of 200 ms.
    fn default() -> Self {
        BatchingPolicy { wait: Duration::ZERO, max_calls: 8, timeout: Duration::from_millis(200) }
    }
}

impl BatchingPolicy {
    /// Sets the time that a call waits for others.
    #[must_use]
    pub const fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the maximum number of calls in an array.
    #[must_use]
    pub const fn with_max_calls(mut self, max_calls: usize) -> Self {
        self.max_calls = max_calls;
        self
    }

    /// Sets the timeout of an array.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Counts of the arrays that were made of single calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BatchingCounts {
    /// Arrays that were sent.
    pub arrays: u64,
    /// Calls in these arrays.
    pub calls: u64,
    /// Arrays whose calls were then sent alone, if the retry budget allowed it: the node did not accept the array, its
    /// answer was too large, or it timed out.
    pub abandoned: u64,
}

impl BatchingCounts {
    #[must_use]
    pub(super) const fn and(self, other: BatchingCounts) -> Self {
        BatchingCounts {
            arrays: self.arrays + other.arrays,
            calls: self.calls + other.calls,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct ArrayCounters {
    arrays: AtomicU64,
    calls: AtomicU64,
    abandoned: AtomicU64,
}

impl ArrayCounters {
    pub(crate) fn count_sent(&self, calls: usize) {
        self.arrays.fetch_add(1, Relaxed);
        self.calls.fetch_add(calls as u64, Relaxed);
    }

    pub(crate) fn count_abandoned(&self) {
        self.abandoned.fetch_add(1, Relaxed);
    }

    pub(crate) fn counts(&self) -> BatchingCounts {
        BatchingCounts {
            arrays: self.arrays.load(Relaxed),
            calls: self.calls.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
        }
    }
}

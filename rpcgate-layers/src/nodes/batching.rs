//! Arrays of calls: single reads of several clients that travel to a node in one request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// When single reads of several clients are sent to a node in one array, where the chain takes arrays.
///
/// A broadcast never is, and neither is a heavy call, a large one, or one that an archive gets as its second node.
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
    /// How long a call waits for others; zero for no longer than the runtime takes to poll the calls that are ready.
    pub wait: Duration,
    /// The most calls of an array.
    pub max_calls: usize,
    /// How long an array may take. Then it is given up, and each of its calls is sent alone, within the
    /// [budget of retries](crate::nodes::RetryPolicy::budget): none is delayed for longer by those beside it.
    pub timeout: Duration,
}

impl Default for BatchingPolicy {
    /// Without waiting, up to 8 calls, which are sent alone after 200 ms.
    fn default() -> Self {
        BatchingPolicy { wait: Duration::ZERO, max_calls: 8, timeout: Duration::from_millis(200) }
    }
}

impl BatchingPolicy {
    /// The same with another time for which a call waits.
    #[must_use]
    pub const fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The same with another number of calls.
    #[must_use]
    pub const fn with_max_calls(mut self, max_calls: usize) -> Self {
        self.max_calls = max_calls;
        self
    }

    /// The same with another time for an array.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// The arrays that were made of single calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BatchingCounts {
    /// Arrays that were sent.
    pub arrays: u64,
    /// The calls in them.
    pub calls: u64,
    /// Arrays whose calls were sent alone afterwards, as far as there were retries: the node did not accept the array, its answer
    /// was too large, or it took too long.
    pub abandoned: u64,
}

impl BatchingCounts {
    /// The sum of both.
    #[must_use]
    pub(super) const fn and(self, other: BatchingCounts) -> Self {
        BatchingCounts {
            arrays: self.arrays + other.arrays,
            calls: self.calls + other.calls,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

/// Counts the arrays to one node.
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

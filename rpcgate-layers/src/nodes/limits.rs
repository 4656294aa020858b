use super::batching::BatchingPolicy;
use super::hedge::HedgePolicy;
use super::retry::RetryPolicy;
use std::time::Duration;

/// The limits of a pool: for its tries, its calls in flight and its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoolLimits {
    /// The number and the duration of the tries of a call.
    pub retry: RetryPolicy,
    /// The timeout of a new connection, including DNS, TCP and TLS.
    pub connect: Duration,
    /// The maximum number of the chain's calls in flight, separately for HTTP and gRPC.
    pub in_flight: usize,
    /// The maximum number of idle connections per node; four times as many if connections must [rest](Self::rest).
    pub idle_per_node: usize,
    /// The time that idle connections are kept; less if a node says so in its `CacheDecision-Alive` header.
    pub idle_time: Duration,
    /// The time that a connection rests before it takes a call whose answer has no id to match: a REST call, or a call
    /// to a node that writes no ids. If late bytes of the previous call arrive in this time, the connection is closed.
    /// After a shorter rest they would be taken for the answer to the next call.
    pub rest: Duration,
    /// The maximum lag in blocks. A node that is farther behind is used only if no better one exists. `None` for the
    /// lag of the [chain](rpcgate_core::chain::Facts::max_lag).
    pub max_lag: Option<u64>,
    /// The policy for hedged reads; `None` for no hedges.
    pub hedge: Option<HedgePolicy>,
    /// The policy for sending single reads of several clients in one array, if the chain supports arrays; `None` for no
    /// arrays.
    pub batching: Option<BatchingPolicy>,
    /// The maximum number of healthy nodes to which a broadcast is sent at once. The first node that accepts it
    /// answers.
    pub broadcast_nodes: usize,
}

impl Default for PoolLimits {
    /// Returns limits with the default retry policy, a connect timeout of 3 s, 1024 calls in flight, 128 idle
    /// connections for up to 60 s with a rest of 10 ms, the chain's lag, no hedges, no batches, and one node for a
    /// broadcast.
    fn default() -> Self {
        PoolLimits {
            retry: RetryPolicy::default(),
            connect: Duration::from_secs(3),
            in_flight: 1024,
            idle_per_node: 128,
            idle_time: Duration::from_secs(60),
            rest: Duration::from_millis(10),
            max_lag: None,
            hedge: None,
            batching: None,
            broadcast_nodes: 1,
        }
    }
}

impl PoolLimits {
    /// Sets the retry policy.
    #[must_use]
    pub const fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the connect timeout.
    #[must_use]
    pub const fn with_connect(mut self, connect: Duration) -> Self {
        self.connect = connect;
        self
    }

    /// Sets the maximum number of calls in flight.
    #[must_use]
    pub const fn with_in_flight(mut self, in_flight: usize) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// Sets the maximum number of idle connections per node, and the time that they are kept.
    #[must_use]
    pub const fn with_idle(mut self, per_node: usize, time: Duration) -> Self {
        (self.idle_per_node, self.idle_time) = (per_node, time);
        self
    }

    /// Sets the time that a connection rests.
    #[must_use]
    pub const fn with_rest(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }

    /// Sets the maximum lag of a node in blocks; `None` for the chain's.
    #[must_use]
    pub const fn with_max_lag(mut self, max_lag: Option<u64>) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// Sets the number of nodes to which a broadcast is sent at once.
    #[must_use]
    pub const fn with_broadcast_nodes(mut self, nodes: usize) -> Self {
        self.broadcast_nodes = nodes;
        self
    }

    /// Sets the batching policy; `None` for no batches.
    #[must_use]
    pub const fn with_batching(mut self, batching: Option<BatchingPolicy>) -> Self {
        self.batching = batching;
        self
    }

    /// Sets the hedging policy; `None` for no hedges.
    #[must_use]
    pub const fn with_hedge(mut self, hedge: Option<HedgePolicy>) -> Self {
        self.hedge = hedge;
        self
    }
}

//! The limits of a pool.

use super::batching::BatchingPolicy;
use super::hedge::HedgePolicy;
use super::retry::RetryPolicy;
use std::time::Duration;

/// The limits of a pool: of its tries, its calls in flight and its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoolLimits {
    /// How often and for how long a call is tried.
    pub retry: RetryPolicy,
    /// How long a new connection may take: name look-up, TCP and TLS together.
    pub connect: Duration,
    /// Calls that the chain may have in flight: as many over gRPC, and as many over HTTP.
    pub in_flight: usize,
    /// Idle connections that are kept for each node; four times as many if they must [rest](Self::rest).
    pub idle_per_node: usize,
    /// How long they are kept; less if a node says so in its `Keep-Alive` header.
    pub idle_time: Duration,
    /// How long a connection rests before it takes a call whose answer no number identifies: a REST call, or one to a node that
    /// writes no ids. Late bytes of the last call end the connection in this time. Later, they would be taken for the answer
    /// to the next call.
    pub rest: Duration,
    /// Blocks that a node may be behind the others before it is used only if none is better; `None` for the number of
    /// the [chain](rpcgate_core::chain::Facts::max_lag).
    pub max_lag: Option<u64>,
    /// When a read is sent to a second node as well; `None`: never.
    pub hedge: Option<HedgePolicy>,
    /// When single reads of several clients are sent to a node in one array, where the chain takes arrays; `None`: never.
    pub batching: Option<BatchingPolicy>,
    /// Nodes to which a broadcast is sent at once, as far as so many are healthy; the first that takes it answers.
    pub broadcast_nodes: usize,
}

impl Default for PoolLimits {
    /// The default retry policy, 3 s for a connection, 1024 calls in flight, 128 idle connections for up to 60 s which rest for
    /// 10 ms, the chain's lag, no hedges, no arrays of several clients' calls, and one node for a broadcast.
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
    /// The same with another retry policy.
    #[must_use]
    pub const fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The same with another time that a new connection may take.
    #[must_use]
    pub const fn with_connect(mut self, connect: Duration) -> Self {
        self.connect = connect;
        self
    }

    /// The same with another number of calls in flight.
    #[must_use]
    pub const fn with_in_flight(mut self, in_flight: usize) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// The same with another number of idle connections for each node, and the time for which they are kept.
    #[must_use]
    pub const fn with_idle(mut self, per_node: usize, time: Duration) -> Self {
        (self.idle_per_node, self.idle_time) = (per_node, time);
        self
    }

    /// The same with another time for which a connection rests.
    #[must_use]
    pub const fn with_rest(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }

    /// The same with another number of blocks that a node may be behind the others; `None`: the chain's.
    #[must_use]
    pub const fn with_max_lag(mut self, max_lag: Option<u64>) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// The same with another number of nodes to which a broadcast is sent at once.
    #[must_use]
    pub const fn with_broadcast_nodes(mut self, nodes: usize) -> Self {
        self.broadcast_nodes = nodes;
        self
    }

    /// The same with single reads of several clients in one array, or without.
    #[must_use]
    pub const fn with_batching(mut self, batching: Option<BatchingPolicy>) -> Self {
        self.batching = batching;
        self
    }

    /// The same with hedged reads, or without.
    #[must_use]
    pub const fn with_hedge(mut self, hedge: Option<HedgePolicy>) -> Self {
        self.hedge = hedge;
        self
    }
}

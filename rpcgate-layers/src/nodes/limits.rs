//! The limits of a pool.

use super::retry::RetryPolicy;
use std::time::Duration;

/// The limits of a pool: of its tries, its calls in flight and its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolLimits {
    /// How often and for how long a call is tried.
    pub retry: RetryPolicy,
    /// How long a new connection may take: name look-up, TCP and TLS together.
    pub connect: Duration,
    /// Calls that the chain may have in flight.
    pub in_flight: usize,
    /// Idle connections that are kept for each node.
    pub idle_per_node: usize,
    /// How long they are kept; less if a node says so in its `Keep-Alive` header.
    pub idle_time: Duration,
    /// Blocks that a node may be behind the others before it is used only if none is better; `None` for the number of
    /// the [chain](rpcgate_core::chain::Facts::max_lag).
    pub max_lag: Option<u64>,
}

impl Default for PoolLimits {
    /// The default retry policy, 3 s for a connection, 1024 calls in flight, 128 idle connections for up to 60 s, and the
    /// chain's lag.
    fn default() -> Self {
        PoolLimits {
            retry: RetryPolicy::default(),
            connect: Duration::from_secs(3),
            in_flight: 1024,
            idle_per_node: 128,
            idle_time: Duration::from_secs(60),
            max_lag: None,
        }
    }
}

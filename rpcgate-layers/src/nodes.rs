//! The nodes of a chain: the choice of the node for a call, and the retries of failed calls.
//!
//! A [`Pool`] is created from a chain's [`NodeConfig`]s and sends requests to its nodes. The parts:
//!
//! | part | content |
//! |---|---|
//! | [`NodeConfig`], [`NodeUrl`] | a node's addresses for each protocol, and its credentials |
//! | [`Dialer`] | connections to a node over another channel than TCP |
//! | [`NodeHealth`] | the health of a node, from its calls and its probes |
//! | [`ExpectedNetwork`] | the network to which a node has to belong |
//! | `choice` | the choice among the fit nodes |
//! | `node_set` | the nodes that take a call at all |
//! | `node_digits`, `node_state` | the node that has the state a call uses, such as a filter |
//! | [`NodeSpendings`], `call_rate`, `month_count` | the calls of a node, counted against its limits |
//! | `pool/choose` | the nodes below their limits, and the cheapest of them |
//! | [`NodeDrains`] | nodes that an operator has taken out of use |
//! | [`HedgePolicy`] | second tries of reads that take unusually long |
//! | [`BatchingPolicy`] | single reads of several clients in one array |
//! | [`RetryPolicy`] | the number, the duration and the budget of tries |
//! | `in_flight` | the calls in flight of a chain and of a project |
//! | `head_belief` | the believed height among those that nodes report |
//! | [`watch_head`] | the height of the chain, and the lag of its nodes |
//!
//! The [`transport`](crate::transport) module connects to a node: a transport reads a node's configuration and reports
//! to its health. In this module only the pool depends on a transport.
//!
//! - A read is tried at [two nodes](RetryPolicy::attempts), if the [retry budget](RetryPolicy::budget) allows it. A
//!   broadcast is tried again only while no byte of it was written. With [`PoolLimits::broadcast_nodes`] it goes to
//!   several nodes at once.
//! - The gateway backs off from a node that cannot be reached, or whose last five answers were unusable: for 1 s at
//!   first, then twice as long each time, up to 30 s. If the node sends `Retry-After`, the backoff is that time, at
//!   most a minute. A silent, syncing or lagging node comes after all healthy nodes, and a fallback node after all
//!   nodes of a lower priority number. One node is always used, even if none is healthy.
//!
//! No lock is held across an await. A call starts no task and drives its own connection; only an array with the calls
//! of several clients is a task, because it belongs to no single client. In addition to hyper's own allocations, a call
//! on an idle connection allocates its header table, a box for its tries, and one buffer if its answer came in several
//! pieces.

pub(crate) mod backoff;
pub(crate) mod batching;
mod call_number;
mod call_rate;
mod choice;
pub(crate) mod config;
pub(crate) mod dialer;
mod drain;
pub(crate) mod error;
pub(crate) mod exchange;
mod head;
mod head_belief;
mod head_requests;
pub(crate) mod health;
mod hedge;
pub(crate) mod in_flight;
mod latencies;
mod limits;
mod month_count;
mod network;
pub(crate) mod node;
pub(crate) mod node_digits;
pub(crate) mod node_set;
pub(crate) mod node_state;
mod pool;
mod pools;
mod probe_call;
pub(crate) mod progress;
pub(crate) mod reception;
pub(crate) mod retry;
pub(crate) mod retry_budget;
mod second_requests;
pub(crate) mod spending;
pub(crate) mod timers;
pub(crate) mod transport_health;
pub(crate) mod url;
pub(crate) mod usefulness;

pub use batching::{BatchingCounts, BatchingPolicy};
pub use call_number::next_call_number;
pub use config::{BadRoots, NodeConfig};
pub use dialer::{DialFuture, Dialer, NodeIo};
pub use drain::{NodeDrain, NodeDrains};
pub use error::NodeRequestError;
pub use head::watch_head;
pub use health::NodeHealth;
pub use hedge::{HedgeCounts, HedgePolicy};
pub use limits::PoolLimits;
pub use network::ExpectedNetwork;
pub use node::{NodeIndex, NodeView};
pub use pool::Pool;
pub(crate) use pool::SecondExchange;
pub use pools::Pools;
pub use retry::RetryPolicy;
pub use retry_budget::RetryBudget;
pub use second_requests::SecondReason;
pub use spending::{NodeMonth, NodeSpending, NodeSpendingView, NodeSpendings};
pub use url::{BadUrl, NodeUrl};

//! The nodes of a chain: which node gets a call, and whether a failed call is tried again.
//!
//! [`Pool`] is made of a chain's [`NodeConfig`]s and sends requests to its nodes. What each part decides:
//!
//! | part | decides |
//! |---|---|
//! | [`NodeConfig`], [`NodeUrl`] | where a node is, in each protocol, and with which credentials it is reached |
//! | [`Dialer`] | how a connection to a node is opened, if not by TCP |
//! | [`NodeHealth`] | whether a node is fit, by its answers to calls and by its probes |
//! | [`ExpectedNetwork`] | to which network a node has to belong |
//! | `choice` | which of the fit nodes gets the next call |
//! | `node_set` | which nodes take a call at all |
//! | `node_digits`, `node_state` | which node has what a call uses, such as a filter |
//! | [`NodeSpendings`], `call_rate`, `month_count` | how many calls a node has got of those that it may get |
//! | `pool/choose` | which nodes have room, and which of them cost least |
//! | [`NodeDrains`] | which nodes an operator has taken out of use |
//! | [`HedgePolicy`] | whether a read that takes unusually long is sent to a second node as well |
//! | [`BatchingPolicy`] | whether single reads of several clients are sent to a node in one array |
//! | [`RetryPolicy`] | how often, how long and within which budget a call is tried |
//! | `in_flight` | how many calls a chain and a project may have at the nodes |
//! | `head_belief` | which of the heights that nodes show is believed |
//! | [`watch_head`] | the height of the chain, and which nodes are behind it |
//!
//! [`transport`](crate::transport) decides how a node is reached: a transport reads a node's configuration and reports to
//! its health. Of the parts here only the pool knows a transport.
//!
//! - A call that only reads is tried at [two nodes](RetryPolicy::attempts), as far as the
//!   [retry budget](RetryPolicy::budget) allows. A broadcast is tried again only while no byte of it was written; with
//!   [`PoolLimits::broadcast_nodes`] it goes to several nodes at once.
//! - A node that cannot be reached, or whose last five answers were unusable, is backed off from: for 1 s at first, then twice
//!   as long each time up to 30 s, or for as long as its own `Retry-After` says, a minute at most. A node that is silent,
//!   syncing or behind comes after all healthy nodes, and a fallback after all nodes of a lower number. One node is
//!   always used, even if none is healthy.
//!
//! No lock is held while anything waits. Neither a call nor a connection starts a task: a call drives the connection it is
//! on; only an array that is made of calls of several clients is a task, since it is no client's. Besides what hyper allocates, a call on an idle connection allocates the table of its headers, a box for its tries,
//! and one buffer if its answer came in several pieces.

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

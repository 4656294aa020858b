//! The pool of a chain's nodes: an HTTP/1.1 client made for this one use.
//!
//! [`Pool::ask`] sends one request to one of the nodes and gives back its answer, whole or, when it is larger than the
//! caller collects, as a prefix and a [`NodeBody`] to stream. What a caller may rely on:
//!
//! - The request is written by the pool: its framing, `Host`, credentials. Of the client nothing passes unless the
//!   caller put it into the [`NodeRequest`], and even then no framing, no hop-by-hop header and no credential.
//! - An answer that was cut, is longer or shorter than it says, or cannot be decoded is a
//!   [`Fault`](rpcgate_core::fault::Fault), never a clean end.
//!   An answer without a length of its own ends where the connection does, which looks the same when it is cut: such a
//!   body is given out only whole, marked by [`NodeAnswer::framed`], and refused beyond [`NodeRequest::collect`].
//! - A connection is used again only after an answer that was read to its very end. Bytes that follow an answer close
//!   the connection. Those that come in the very moment in which the next call is written cannot be told from its
//!   answer here. The [`Upstream`] layer tells them by their id, which is another for every set, save for a lone call
//!   under its client's own id: there it takes a client that repeats its ids.
//! - A call that only reads is sent once more when its connection broke, and once to another node, as far as the
//!   pool's reserve of retries reaches. A broadcast is sent again only if no byte of it was written.
//! - A node that cannot be reached, or whose answers were none five times in a row, is put aside, for 1 s at first and at
//!   most 30 s, or as long as its own `Retry-After` says, a minute at most. A node that is silent, syncing or behind comes
//!   after all that are well, and a fallback after all of a lower number. There is no state in which nobody is asked.
//!
//! No lock is held while anything waits. Neither a call nor a connection starts a task: a call drives the connection it
//! is on. Beside what hyper allocates, a call on an idle connection allocates the table of its headers, a box for its way
//! through the pool, and, if its answer came in several pieces, one buffer to join them.

mod answer;
mod backoff;
mod body;
mod choose;
mod classify;
mod collect;
mod connect;
mod decode;
mod drive;
mod health;
mod health_state;
mod idle;
mod node;
mod node_request;
mod pool;
mod progress;
mod rest;
mod retry;
mod service;
mod slots;
mod timers;
mod url;

#[cfg(test)]
mod script;

pub use answer::{AnswerBody, NodeAnswer};
pub use body::NodeBody;
pub use health::watch_head;
pub use health_state::NodeHealth;
pub use node::{BadRoots, NodeConfig, NodeIndex, NodeView};
pub use node_request::{NodeRequest, NodeRequestError};
pub use pool::{Pool, PoolLimits};
pub use service::{Pools, ReplyLimits, Upstream};
pub use url::{BadUrl, NodeUrl};

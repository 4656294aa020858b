//! A node over HTTP/1.1: a client made for this one use (`docs/decisions/0002-own-node-pool.md`).
//!
//! A [`NodeRequest`] gets a [`NodeAnswer`]: whole or, if it is larger than the caller buffers, as a prefix and a
//! [`NodeBody`] to stream. A caller may rely on this:
//!
//! - The client writes the request: its framing, `Host` and credentials. It passes nothing of a gateway's client that is not
//!   in the [`NodeRequest`], and even then no framing, no hop-by-hop header and no credential.
//! - An answer that was cut, that is longer or shorter than it declares, or that cannot be decoded is a
//!   [`Fault`](rpcgate_core::fault::Fault), never a clean end.
//!   An answer without a declared length ends where the connection does, and looks the same when it is cut: such a body is
//!   given out only whole, marked by [`NodeAnswer::framed`], and is a fault beyond [`NodeRequest::buffer`].
//! - A connection is reused only after an answer that was read to its very end. Bytes that follow an answer close the
//!   connection. If they arrive in the very moment in which the next call is written, they cannot be distinguished from its answer
//!   here. The [`Upstream`](crate::upstream::Upstream) service recognises them by their id, which differs from set to set, save for
//!   a single call under its client's own id: that takes a client that repeats its ids.

mod answer;
mod body;
pub(crate) mod client;
mod collect;
mod connection;
mod decode;
mod drive;
mod headers;
mod idle;
pub(crate) mod request;
pub(crate) mod template;

pub(super) use headers::is_hop_by_hop;
pub(super) use template::is_gateways;

pub use answer::{AnswerBody, NodeAnswer};
pub use body::NodeBody;
pub use request::NodeRequest;

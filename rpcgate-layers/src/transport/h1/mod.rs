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
//! - A connection is reused only after an answer that was read to its very end and that its reader accepted. Bytes that follow
//!   an answer close the connection, and so does every answer that has no body by definition (to a `HEAD` request, 204, 304),
//!   because faulty nodes send one.
//! - Bytes that arrive in the very moment in which the next call is written cannot be distinguished from its answer here. Each
//!   call has a [number](NodeRequest::with_number) of its own, by which the reader of the answer recognises them. A connection
//!   whose answers show no numbers, as those to REST calls, [rests](crate::nodes::PoolLimits::rest) before it takes the next call.
//! - Interim answers (1xx) are read and dropped, up to 1 MiB before each answer.

pub(crate) mod answer;
mod body;
pub(crate) mod client;
mod collect;
mod connection;
mod decode;
mod drive;
mod head_bytes;
mod headers;
mod idle;
pub(crate) mod request;
pub(crate) mod template;

pub(super) use headers::is_hop_by_hop;
pub(super) use template::is_gateways;

pub use answer::{AnswerBody, NodeAnswer};
pub use body::NodeBody;
pub(crate) use request::NUMBERS;
pub use request::NodeRequest;

//! HTTP/1.1 to a node: a client that is made for this one use (`docs/decisions/0002-own-node-pool.md`).
//!
//! A [`NodeRequest`] gets a [`NodeAnswer`]: a whole body or, if it is larger than the caller's buffer limit, a prefix
//! and a [`NodeBody`] to stream. The guarantees:
//!
//! - The client writes the framing, `Host` and the credentials of the request. Of a gateway client's request it
//!   forwards only the content of the [`NodeRequest`], and even then no framing, no hop-by-hop header and no
//!   credential.
//! - An answer that was truncated, that is longer or shorter than it declares, or that cannot be decoded is a
//!   [`Fault`](rpcgate_core::fault::Fault), never a clean end. An answer without a declared length ends with the
//!   connection and looks the same when it is truncated: such a body is returned only whole, marked by
//!   [`NodeAnswer::framed`], and is a fault beyond [`NodeRequest::buffer`].
//! - A connection is reused only after an answer that was read to its very end and that its reader accepted. Bytes
//!   after an answer close the connection. So does every answer that has no body by definition (to a `HEAD` request,
//!   204, 304), because faulty nodes send one.
//! - The client cannot distinguish bytes that arrive at the moment when the next call is written from the answer to
//!   that call. So each call has a unique [number](NodeRequest::with_number), by which the reader of the answer
//!   recognises it. A connection whose answers show no numbers, as in REST, [rests](crate::nodes::PoolLimits::rest)
//!   before it takes the next call.
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

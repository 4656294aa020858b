//! gRPC: accepts calls of every shape over HTTP/2 and passes them to the nodes of their chain.
//!
//! A call is routed by its proto package and admitted like any request. It is decided like any call, by its method in
//! lower case, with the same weights, lists, windows and budgets ([`grpc_stack`](crate::stack::grpc_stack)). Messages
//! pass unread in both directions; only a method that is decided by its first message waits for that one.
//!
//! | shape | treatment |
//! |---|---|
//! | unary | A complete call of one message is kept (up to 256 KiB, in the memory of bodies) until a node has answered. The head of the answer waits up to 500 ms for the first message. If the node fails before the head leaves, and the method only reads, another node is tried. |
//! | any other | Another node is tried only if nothing of the call was sent. |
//!
//! The path does not show the shape of a call, so the messages decide. An answer of one message is recorded as a whole:
//! before it leaves if its trailers came with it, otherwise before its trailers leave. It is charged if it has
//! trailers, or if its client has disconnected. A second message shows that the answer is a stream. A stream is charged
//! and recorded with a begin before its second message leaves, and recorded with an end. Both records add up to the
//! same call.
//!
//! The head of an answer contains the price of the call. If the call becomes free because its node aborts later, the
//! trailers correct the price.
//!
//! - **Time**: `grpc-timeout` limits the whole call, and each node gets the remaining time. After it the call ends with
//!   status 4. The chain's own timeout limits three waits: from the client's last message to the head of the answer,
//!   from there to the first message, and between the pieces of a message. After it the status is 14. Between messages
//!   a stream may be silent.
//! - **Cancellation**: a client that resets its stream also resets the node's stream. A node that aborts ends the
//!   client's stream with status 14, or resets it within a message.
//! - **Flow control**: a piece is read from one side when the other side can take it.
//! - **Long calls** (over half a second) end when their key is revoked or expires, or their tenant is suspended, with
//!   the refusal that a new call would get ([`OpenStreams`](crate::websocket::OpenStreams)). Streams count with the
//!   WebSocket streams of their project and key. At the end of a shutdown's grace period the status is 14.
//! - **Refusals** are answers with headers only: HTTP 200, `grpc-status`, `grpc-message`, and the metadata of every
//!   answer (`x-request-id`, rate limits, `retry-after`).
//! - **Node statuses** pass unchanged, with two exceptions: 16 (the gateway's own credentials are wrong) and 14 without
//!   a message are failures of the node. After them a read is tried at another node; otherwise the client gets 14.
//! - **Cache**: answers are not cached.
//!
//! Not served: gRPC-Web, which has another framing, and gRPC over HTTP/1.1.

mod account;
mod answer;
mod counts;
mod exchange;
mod feed;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod judge;
mod limits;
mod long_call;
mod messages;
mod pass;
mod service;
mod status;
mod timeout;

#[cfg(test)]
mod tests;

pub use answer::GrpcBody;
pub use counts::{GrpcCounts, STATUSES};
pub use limits::GrpcLimits;
pub use pass::Pass;
pub use service::GrpcService;
pub use status::is_grpc;

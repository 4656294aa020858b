//! gRPC: the service that takes calls of every shape over HTTP/2 and passes them to the nodes of their chain.
//!
//! A call is found by its proto package, admitted like any request, and decided like any call: by its method in lower case,
//! with the same weights, lists, windows and budgets ([`grpc_stack`](crate::stack::grpc_stack)). Its messages pass as they
//! are, in both directions, without being read; only a method that is decided by its first message waits for that.
//!
//! | shape | how it is treated |
//! |---|---|
//! | unary | A call of which all has come, one message, is kept (up to 256 KiB, in the memory of bodies) until a node has answered. The head of the answer waits for the first message, for at most 500 ms. If the node fails before the head leaves, and the method only reads, the call is tried at another node. |
//! | any other | It is tried again only while nothing of it was sent. |
//!
//! Which of the shapes a call has is not known from its path, so it is decided by what happens. An answer of one message is
//! recorded whole: before it leaves if its trailers came with it, else before its trailers leave. It is charged if it has
//! trailers, or its client has left. A second message shows that the answer is a stream: it is charged, and recorded by a
//! begin, before the second message leaves, and an end. Both add up to the same call.
//!
//! The head of an answer says what the call costs. If it costs nothing because its node broke off later, the trailers say
//! so.
//!
//! - **Time**: `grpc-timeout` bounds all of a call, and a node is told what is left of it. When it is over, the call ends with
//!   status 4. The chain's own timeout bounds the time from the last message of the client to the head of the answer, from there to
//!   the first message, and from piece to piece within a message: then the status is 14. Between messages a stream may be
//!   silent.
//! - **Cancellation**: a client that resets its stream has the node's reset. A node that breaks off ends the client's stream
//!   with status 14, or resets it within a message.
//! - **Flow control**: a piece is read from one side when the other has room for it.
//! - **Calls that last** longer than half a second end with the refusal that they would get if they began now: when their key
//!   is revoked or expires, or their tenant is suspended ([`OpenStreams`](crate::websocket::OpenStreams)). Those that are
//!   streams count with the WebSocket streams of their project and key. At the end of a shutdown's grace the status is 14.
//! - **Refusals** are answers that consist of headers alone: HTTP 200, `grpc-status`, `grpc-message`, and the metadata of
//!   every answer (`x-request-id`, rate limits, `retry-after`).
//! - **Node statuses** pass, with two exceptions: 16 (the gateway's own credentials are wrong) and 14 without a message are
//!   failures of the node. After one a read is tried at another node; else the client gets 14.
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
mod lasting;
mod limits;
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

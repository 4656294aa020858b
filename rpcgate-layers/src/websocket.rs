//! WebSocket streams: `/ws/<chain>`, each with its own stream to a node.
//!
//! The [WebSocket stack](crate::stack::websocket_stack) is a service from `http::Request` to `http::Response`, like
//! that of HTTP. A handshake is admitted like a call: routed, authenticated, checked against suspension, scope and plan
//! windows, and refused with the same statuses and bodies. Then a node is contacted, and another one if it does not
//! accept the stream (502 if none does). The client gets its 101, or its 200 over HTTP/2. From then on frames pass
//! unchanged in both directions:
//!
//! - The layers of the [message stack](crate::stack::message_stack) decide about each call in a client's message. A
//!   refused call is answered with its error and does not reach the node; the other calls of an array continue, and the
//!   answers are joined. A message that is not strict JSON is answered with -32700 and never forwarded, because a
//!   lenient node may find calls in it.
//! - Text and binary messages, fragments, pings, pongs, close codes and reasons pass unchanged. No extension is
//!   negotiated.
//! - A client that reads slowly slows down its node: the buffer for it is [limited](StreamLimits::max_backlog).
//! - A silent side is pinged. A side that stays silent, or reads nothing, is given up; [`CloseReason`] determines the
//!   close frame for the client.
//! - When the connection to a node breaks, the client gets close code 1012. It must open its stream and its
//!   subscriptions again, and gets another node.
//!
//! Every part of a stream is counted by a [`StreamTally`](rpcgate_core::stream_tally::StreamTally).
//! [`OpenStreams`] bounds the streams of a project, and ends those of keys that were revoked.

mod close;
mod handshake;
mod hold;
mod limits;
mod link;
mod messages;
mod node_state;
mod open_streams;
mod pending;
mod poll_when_woken;
mod relay;
mod run;
#[cfg(test)]
mod tests;
mod upkeep;
mod writes;

pub use close::CloseReason;
pub(crate) use handshake::StreamContext;
pub use handshake::{Admitted, OpenStreamService};
pub use hold::StreamHold;
pub use limits::StreamLimits;
pub(crate) use messages::MessageRules;
pub use messages::{DecideCalls, Forward};
pub(crate) use open_streams::CallPermit;
pub use open_streams::OpenStreams;

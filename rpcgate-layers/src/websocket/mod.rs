//! WebSocket streams: `/ws/<chain>`, each with a stream to a node behind it.
//!
//! The [WebSocket stack](crate::stack::websocket_stack) is a service from `http::Request` to `http::Response`, as that of
//! HTTP. A handshake is admitted like a call: routed, authenticated, checked against suspension, scope and plan windows, and
//! refused with the same statuses and bodies. Then a node is asked, another one if it does not take the stream
//! (502 if none does), and the client gets its 101, or its 200 over HTTP/2. From then on frames pass unchanged in both directions:
//!
//! - Each call in a client's message is decided by the layers of the [message stack](crate::stack::message_stack). A refused
//!   call is answered with its error and does not reach the node; of an array, the others go on, and the answers are joined.
//!   A message that is not strict JSON is answered with -32700 and never forwarded, whatever its node would read in it.
//! - Text and binary messages, their fragments, pings, pongs, close codes and reasons pass as they are. No extension is
//!   negotiated.
//! - A client that reads slowly slows its node: what is held for it is [bounded](StreamLimits::max_backlog).
//! - A side that sends nothing is pinged. One that stays silent, or reads nothing, is given up, and
//!   [`CloseReason`] says what its client is told.
//! - When the connection to a node breaks, the client gets close code 1012. It opens its stream and its subscriptions again,
//!   and gets another node.
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
mod relay;
mod run;
#[cfg(test)]
mod tests;
mod upkeep;
mod woken;
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

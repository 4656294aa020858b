//! HTTP/2 to a node, for gRPC: one or a few connections to each node, which its calls share.
//!
//! - A call takes a free stream of a connection. The limit is the node's own (`SETTINGS_MAX_CONCURRENT_STREAMS`) and at
//!   most [`STREAMS`](connection::STREAMS). If no stream is free, one more connection is made for all waiting calls.
//! - A connection that has ended, or for which the node has sent GOAWAY, gets no further calls.
//! - TCP detects a node that is gone without notice: the socket is probed when it is quiet, and fails when sent bytes
//!   stay unacknowledged, both within 40 s. HTTP/2 pings are sent only every [`PING`](connection::PING), while streams
//!   are open, because gRPC servers close connections that ping them more often than every 5 minutes.
//! - Every stream has its own window, and the connection's window is the sum: a client that reads slowly delays only
//!   its own call.

mod body;
pub(crate) mod client;
mod connection;
mod request;
mod send;

pub(crate) use body::NodeBody;
pub(crate) use request::{GrpcRequest, TIMEOUT};

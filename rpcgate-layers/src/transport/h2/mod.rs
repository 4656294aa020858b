//! A node over HTTP/2, for gRPC: one or a few connections to each node, shared by its calls.
//!
//! - A call takes a stream of a connection that has one free, by the node's own limit (`SETTINGS_MAX_CONCURRENT_STREAMS`)
//!   and at most [`STREAMS`](connection::STREAMS). If there is none, one more connection is made, for all that wait.
//! - A connection that ends, or that the node asks to leave (GOAWAY), gets no further calls.
//! - A node that is gone without a word is noticed by TCP: its socket is probed when it is quiet, and ends when sent bytes stay
//!   unacknowledged, both within 40 s. HTTP/2 pings are sent every [`PING`](connection::PING) only, while streams are open,
//!   because gRPC servers end connections that ping them more often than every 5 minutes.
//! - Every stream has a window of its own, and the connection's is the sum: a client that reads slowly holds back its own
//!   call and no other.

mod body;
pub(crate) mod client;
mod connection;
mod request;
mod send;

pub(crate) use body::NodeBody;
pub(crate) use request::{GrpcRequest, TIMEOUT};

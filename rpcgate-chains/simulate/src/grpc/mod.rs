//! gRPC services of simulated nodes: the messages are read from `.proto` files, and the answers are written from the JSON
//! that the same node answers over HTTP, so that both show one chain.

mod descriptor;
mod file;
mod message;
mod parse;
pub(crate) mod protobuf;
pub(crate) mod schema;

use std::fmt;

/// How a gRPC call fails: the status that the node ends it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcFailure {
    /// The status code, as the gRPC specification numbers them; never 0.
    pub code: u32,
    /// The description of the status.
    pub message: String,
}

impl GrpcFailure {
    /// The node has no such service or method (12).
    pub(crate) fn unimplemented(message: impl Into<String>) -> Self {
        GrpcFailure { code: 12, message: message.into() }
    }

    /// The request is not a message, or has values that the method does not accept (3).
    pub(crate) fn invalid_argument(message: impl Into<String>) -> Self {
        GrpcFailure { code: 3, message: message.into() }
    }
}

impl fmt::Display for GrpcFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for GrpcFailure {}

//! The gRPC services of simulated nodes. The messages are read from `.proto` files, and the answers are written from
//! the JSON that the same node answers over HTTP, so that both show one chain.

mod message;
pub(crate) mod protobuf;
pub(crate) mod schema;

use std::fmt;

/// The status with which the node ends a failed gRPC call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcFailure {
    /// The status code of the gRPC specification; never 0.
    pub code: u32,
    /// The description of the status.
    pub message: String,
}

impl GrpcFailure {
    /// Returns the status for an unknown service or method (12).
    pub(crate) fn unimplemented(message: impl Into<String>) -> Self {
        GrpcFailure { code: 12, message: message.into() }
    }

    /// Returns the status for a request that is not a message, or has values that the method does not accept (3).
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

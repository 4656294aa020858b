//! The limits of gRPC calls.

use std::time::Duration;

/// The limits of a gRPC call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GrpcLimits {
    /// The maximum number of bytes of one message, in either direction. A client that exceeds it is refused; a node
    /// that exceeds it has failed.
    pub message: usize,
    /// The maximum time for the first message, for methods that are decided by it.
    pub first: Duration,
}

impl Default for GrpcLimits {
    /// Allows 16 MiB per message, and 60 s for the first message.
    fn default() -> Self {
        GrpcLimits { message: 16 << 20, first: Duration::from_secs(60) }
    }
}

impl GrpcLimits {
    /// Sets the maximum size of a message in bytes.
    #[must_use]
    pub const fn with_message(mut self, bytes: usize) -> Self {
        self.message = bytes;
        self
    }

    /// Sets the maximum time for the first message.
    #[must_use]
    pub const fn with_first(mut self, time: Duration) -> Self {
        self.first = time;
        self
    }
}

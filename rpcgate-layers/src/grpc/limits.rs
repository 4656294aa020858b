//! The limits of gRPC calls.

use std::time::Duration;

/// The limits of a gRPC call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GrpcLimits {
    /// Bytes of one message, in either direction. A client that sends a longer one is refused; a node's is a failure.
    pub message: usize,
    /// How long the first message may take, for the methods that are decided by it.
    pub first: Duration,
}

impl Default for GrpcLimits {
    /// 16 MiB, and 60 s for the first message.
    fn default() -> Self {
        GrpcLimits { message: 16 << 20, first: Duration::from_secs(60) }
    }
}

impl GrpcLimits {
    /// The same with another size of a message, in bytes.
    #[must_use]
    pub const fn with_message(mut self, bytes: usize) -> Self {
        self.message = bytes;
        self
    }

    /// The same with another time for the first message.
    #[must_use]
    pub const fn with_first(mut self, time: Duration) -> Self {
        self.first = time;
        self
    }
}

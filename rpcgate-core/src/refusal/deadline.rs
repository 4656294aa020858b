//! The end of calls with a client deadline.

use super::grpc;

/// The end of a gRPC call that missed its client's deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlineExceeded;

impl DeadlineExceeded {
    /// Returns the gRPC status number.
    pub const fn grpc(self) -> u8 {
        grpc::DEADLINE_EXCEEDED
    }

    /// Returns the message.
    pub const fn message(self) -> &'static str {
        "deadline exceeded"
    }
}

//! The end of calls whose client has set a time.

use super::grpc;

/// The end of a gRPC call that was not answered within the time that its client gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlineExceeded;

impl DeadlineExceeded {
    /// The gRPC status number.
    pub const fn grpc(self) -> u8 {
        grpc::DEADLINE_EXCEEDED
    }

    /// The message.
    pub const fn message(self) -> &'static str {
        "deadline exceeded"
    }
}

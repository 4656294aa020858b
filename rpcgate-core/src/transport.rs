//! The transport of a call.

/// The transport of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Transport {
    /// An HTTP request.
    Http,
    /// The handshake of a WebSocket stream, or one of its messages.
    Ws,
    /// A gRPC call.
    Grpc,
}

impl Transport {
    /// Its name in usage.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Ws => "ws",
            Transport::Grpc => "grpc",
        }
    }
}

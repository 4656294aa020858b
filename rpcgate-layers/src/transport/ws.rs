//! WebSocket: handshakes and frames, with clients and with nodes.

mod arrived;
pub(crate) mod dial;
mod handshake;
pub(crate) mod incoming;
mod messages;
pub(crate) mod outgoing;
#[cfg(any(test, fuzzing))]
pub(crate) mod read_all;
mod read_only;
pub(crate) mod wire;

pub use handshake::{BadHandshake, BadNodeHandshake, ClientHandshake, NodeHandshake};
pub use messages::NodeMessages;

//! A node over WebSocket.

mod handshake;

pub use handshake::{BadHandshake, BadNodeHandshake, ClientHandshake, NodeHandshake};

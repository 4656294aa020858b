//! Sockets: accepting, guarding and ending client connections.

mod body;
mod counted;
mod door;
mod framing;
mod guard;
mod hall;
pub(crate) mod http;
mod own;
mod reader;
mod stream;
pub mod tls;
mod visit;

pub(crate) use hall::Hall;

//! Sockets: accepting, guarding and ending client connections.

mod body;
mod door;
mod guard;
mod hall;
pub(crate) mod http;
mod own;
pub mod tls;
mod visit;

pub(crate) use hall::Hall;

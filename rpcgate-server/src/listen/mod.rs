//! Sockets: accepting, guarding and ending client connections.

mod body;
mod builtin;
mod connection;
mod connections;
mod counted;
mod framing;
mod guard;
pub(crate) mod http;
mod reader;
mod service;
mod stream;
pub mod tls;

pub(crate) use connections::Connections;

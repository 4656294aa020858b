//! Sockets: accepting, bounding and ending client connections.

mod body;
mod builtin;
mod connection;
mod connection_state;
mod connections;
mod counted;
mod frames;
mod guard;
mod head_text;
pub(crate) mod http;
mod hyper_answers;
mod progress;
mod reader;
mod request_head;
mod service;
mod stream;

pub(crate) use connections::Connections;

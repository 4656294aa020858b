//! The service at the end of the call stack: it writes the calls that are still open, sends them to the chain's nodes and
//! settles their entries according to the answers.
//!
//! Which node gets a call, and how often, is decided in [`nodes`](crate::nodes).

mod again;
mod classify;
mod connection_status;
mod consistency;
mod head;
mod index;
mod json_rpc;
mod limits;
mod node_state;
mod requests;
mod rest;
mod round;
mod send;
mod service;
mod streamed_answer;
mod unanswered;

pub use limits::ReplyLimits;
pub use service::Upstream;

//! The service at the end of the call stack: it sends the open calls to the chain's nodes and settles their entries
//! with the answers.
//!
//! [`nodes`](crate::nodes) decides which node gets a call, and how often.

mod again;
mod classify;
mod connection_status;
mod consistency;
mod json_rpc;
mod limits;
mod requests;
mod rest;
mod round;
mod service;
mod streamed_answer;

pub use limits::ReplyLimits;
pub use service::Upstream;

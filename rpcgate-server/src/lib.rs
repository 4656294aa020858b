//! The gateway as a program: it reads a configuration and serves sockets.
//!
//! [`Gateway::start`](gateway::Gateway::start) starts a gateway inside your own process; [`command`] is the command
//! line of the binary.

pub mod access;
pub mod assemble;
mod call_log;
mod call_traces;
pub mod cli;
pub mod command;
mod counting;
#[cfg(feature = "demo")]
pub mod demo;
pub mod demo_options;
mod explain;
pub mod file_handles;
pub mod gateway;
mod grpc_health;
mod grpc_reflection;
pub mod journal;
pub mod listen;
mod lock;
mod metrics;
mod node_spending;
mod nodes;
mod reload;
pub mod start_error;
pub mod state;
#[cfg(test)]
mod testing;
mod transports;

pub use gateway::{Drained, Gateway, StartOptions};
pub use start_error::StartError;

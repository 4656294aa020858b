//! The words, the arithmetic and the backends of an RPC gateway.
//!
//! This crate does no input or output and knows no chain by name. `rpcgate-layers` builds layers on it,
//! `rpcgate-chains` teaches it blockchains, and the binaries give its backends real backends.

pub mod adapter;
pub mod backend;
pub mod cache_rule;
pub mod call;
pub mod caller;
pub mod chain;
pub mod clock;
#[cfg(feature = "config")]
pub mod config;
pub mod envelope;
pub mod fault;
pub mod in_flight;
#[cfg(feature = "journal")]
pub mod journal;
pub mod json;
pub mod memory;
pub mod plan;
pub mod quota;
pub mod refusal;
pub mod reply;
pub mod request_id;
pub mod rest;
pub mod safeguard;
pub mod secret;
pub mod sharded;
pub mod share;
pub mod tally;
#[cfg(any(test, feature = "suite"))]
pub mod toy;
pub mod window;

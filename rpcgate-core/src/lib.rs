#![doc = include_str!("../README.md")]

pub mod adapter;
pub mod backend;
pub mod cache_rule;
pub mod call;
pub mod caller;
pub mod chain;
pub mod clock;
pub mod envelope;
#[cfg(feature = "events")]
pub mod event;
pub mod fault;
pub mod grpc;
pub mod in_flight;
pub mod intern;
#[cfg(feature = "journal")]
pub mod journal;
pub mod json;
pub mod memory;
pub mod month;
pub mod node_try;
pub mod overload;
pub mod plan;
pub mod prelude;
pub mod quota;
pub mod recent;
pub mod refusal;
pub mod reply;
pub mod request_id;
pub mod rest;
pub mod rest_method;
pub mod safeguard;
pub mod secret;
pub mod sharded;
pub mod share;
#[cfg(feature = "sql")]
mod sql;
mod stream_bytes;
pub mod stream_tally;
pub mod tally;
pub mod toy;
pub mod trace;
mod transport;
pub mod url_secrets;
#[cfg(feature = "usage")]
pub mod usage;
pub mod window;

//! The protocols of nodes, one per module. [`nodes`](crate::nodes) decides which node gets a call.

pub(crate) mod connect;
mod connect_error;
pub mod h1;
pub(crate) mod h2;
pub mod trust;
pub mod ws;

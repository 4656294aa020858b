//! The protocols of nodes, one per module; which node gets a call is decided in [`nodes`](crate::nodes).

pub(crate) mod connect;
mod connect_error;
pub mod h1;
pub(crate) mod h2;
pub mod trust;
pub mod ws;

//! Requests to URLs that users choose, such as those of webhooks.
//!
//! A user who chooses a URL must not reach services that only this machine reaches. So the address decides, not the
//! URL: each name is resolved here, each of its addresses is checked, and the connection goes to a checked address, so
//! that a later DNS answer has no effect. Redirects are not followed, and no proxy is taken from the environment.

mod address;
mod bounded_stream;
mod client;
mod connection;
mod egress_error;
mod proxy;
mod resolver;
mod target;
pub(crate) mod tls;

pub use address::refusal;
pub use client::{EgressAnswer, EgressClient};
pub use egress_error::EgressError;
pub use resolver::{Resolver, SystemResolver};
pub use target::EgressTarget;

#[cfg(test)]
mod tests;

//! Requests to URLs that users choose, such as those of webhooks.
//!
//! Somebody who may choose a URL must not reach what only this machine reaches. So the address that is connected to
//! decides, and not the URL: a name is resolved here, each of its addresses is checked, and the connection goes to a
//! checked address, so that an answer of the DNS that changes afterwards has no effect. No redirect is followed, and no
//! proxy is taken from the environment.

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
pub(crate) mod tests;

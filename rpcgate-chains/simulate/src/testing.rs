//! Support for tests of simulated nodes.

pub(crate) mod client;
pub(crate) mod golden;

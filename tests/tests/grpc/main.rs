//! gRPC through a whole gateway, with tonic's client over TLS, which is an independent implementation.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod bad_nodes;
mod charges;
mod entries;
mod long_calls;
mod node;
mod reflection;
mod shapes;
mod statuses;
mod traces;
mod wire;

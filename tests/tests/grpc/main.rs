//! gRPC through a whole gateway: tonic's client over TLS, an independent implementation, and nodes behind it.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod bad_nodes;
mod charges;
mod entries;
mod lasting;
mod node;
mod reflection;
mod shapes;
mod statuses;
mod traces;
mod wire;

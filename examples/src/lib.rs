//! What the examples share and none of them is about: nodes to ask, a key to ask with, and a client that asks.
//!
//! | you want to know | read |
//! |---|---|
//! | how to use one of the layers in a service that is no gateway | `one_layer.rs` |
//! | how to put a step of your own between the layers | `own_layer.rs` |
//! | how to serve a chain that is not in the catalog | `custom_chain.rs` |
//! | what a gateway is made of, from its socket to its node | `whole_gateway.rs` |
//!
//! Each runs with `cargo run -p rpcgate-examples --example NAME` and prints what to try.

pub mod client;
pub mod key;
pub mod node;

/// Whatever may go wrong while an example starts.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

//! What the examples share and none of them is about: nodes to ask, a key to ask with, and a client that asks.
//!
//! | you want to know | read |
//! |---|---|
//! | how to use one of the layers in a service that is not a gateway | `one_layer.rs` |
//! | how to put only the cache in front of a client | `cache_alone.rs` |
//! | how to charge and record calls of types of your own | `quota_alone.rs` |
//! | how to split batches in front of a node that takes none | `split_batches.rs` |
//! | how to put a step of your own between the layers, and take keys from a database of your own | `own_layer.rs` |
//! | how to serve a chain that is not in the catalog | `json_rpc_chain.rs`, `rest_chain.rs`, with its gateway `custom_chain.rs` |
//! | how to run a whole gateway with your own customers and invoices | `whole_gateway.rs` |
//!
//! Each runs with `cargo run -p rpcgate-examples --example NAME` and prints what to try.

pub mod client;
pub mod key;
pub mod node;

/// The blocks of `docs/embedding.md`, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
pub mod embedding {}

/// Whatever may go wrong while an example starts.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

//! Helpers that the examples share: nodes, an API key and a client.
//!
//! | you want to know | read |
//! |---|---|
//! | how to use one of the layers in a service that is not a gateway | `one_layer.rs` |
//! | how to put only the cache in front of a client | `cache_alone.rs` |
//! | how to charge and record calls of your own types | `quota_alone.rs` |
//! | how to split batches in front of a node that does not support them | `split_batches.rs` |
//! | how to put your own step between the layers, with keys from your own database | `own_layer.rs` |
//! | how to serve a chain that is not in the catalog | `json_rpc_chain.rs`, `rest_chain.rs`, with its gateway `custom_chain.rs` |
//! | how to run a whole gateway with your own customers and invoices | `whole_gateway.rs` |
//!
//! Each runs with `cargo run -p rpcgate-examples --example NAME` and prints what to try.

pub mod client;
pub mod key;
pub mod node;

/// The code blocks of `docs/embedding.md`, which are compiled as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
pub mod embedding {}

/// Any error while an example starts.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

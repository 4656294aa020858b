//! Helpers that the examples share: nodes, an API key, a server and a client.
//!
//! | you want to know | read |
//! |---|---|
//! | how to use one of the layers as axum middleware | `one_layer.rs` |
//! | how to use a layer over request and response types of your own | `own_types.rs` |
//! | how to put only the cache in front of a client | `cache_alone.rs` |
//! | how to charge and record calls of your own types | `quota_alone.rs` |
//! | how to split batches in front of a node that does not support them | `split_batches.rs` |
//! | how to put your own step between the layers | `own_layer.rs` |
//! | how to take keys from your own database | `own_keys.rs` |
//! | how to serve a chain that is not in the catalog | `family_chain.rs`, `json_rpc_chain.rs`, `rest_chain.rs`, `custom_chain.rs` |
//! | how to run a whole gateway with your own customers and invoices | `whole_gateway.rs` |
//! | how to add WebSocket streams to an axum application | `streams_in_axum.rs` |
//!
//! Each runs with `cargo run -p rpcgate-examples --example NAME` and prints what to try.

pub mod client;
pub mod key;
pub mod node;
pub mod server;

/// The code blocks of `docs/embedding.md`, which are compiled as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
pub mod embedding {}

/// Any error while an example starts.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

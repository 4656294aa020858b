//! Servers that gateways share, each a process of its own that ends with the tests.

pub mod postgres;
// It is in the package of the crate whose own tests need it too.
#[path = "../../../rpcgate-layers/src/redis/tests/server.rs"]
pub mod redis;

//! Servers that gateways share, each a process of its own that ends with the tests.

pub mod haproxy;
pub mod pebble;
pub mod postgres;
pub mod redis;
pub mod smtp;

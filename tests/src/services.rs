//! Servers that gateways share. Each is a process that ends with the tests.

pub mod haproxy;
pub mod pebble;
pub mod postgres;
pub mod redis;
pub mod smtp;

//! Harness of rpcgate's tests: what stands around the gateway while it is tried.

pub mod fault;

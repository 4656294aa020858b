#![doc = include_str!("../README.md")]

pub mod call;
pub mod coalesce;
pub mod coalesced_writes;
pub mod deferred;
pub mod foreign;
pub mod future;
#[cfg(all(fuzzing, feature = "upstream"))]
pub mod fuzzing;
pub mod gate;
#[cfg(feature = "upstream")]
pub mod gateway;
#[cfg(feature = "upstream")]
pub mod grpc;
pub mod headers;
#[cfg(feature = "upstream")]
pub mod nodes;
pub mod order;
pub mod prelude;
#[cfg(feature = "redis")]
pub mod redis;
pub mod reply_body;
pub mod request;
pub mod respond;
pub mod service_pool;
pub mod spawn;
#[cfg(feature = "upstream")]
pub mod stack;
#[cfg(test)]
mod testing;
#[cfg(feature = "upstream")]
pub mod transport;
#[cfg(feature = "upstream")]
pub mod upstream;
#[cfg(feature = "upstream")]
pub mod websocket;

#![doc = include_str!("../README.md")]

pub mod call;
pub mod gate;
pub mod gather;
pub mod headers;
pub mod lend;
#[cfg(feature = "redis")]
pub mod redis;
pub mod reply_body;
pub mod request;
pub mod respond;
pub mod spawn;
#[cfg(feature = "upstream")]
pub mod stack;
pub mod stranger;
#[cfg(test)]
mod testing;
mod turn;
#[cfg(feature = "upstream")]
pub mod upstream;

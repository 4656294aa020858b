//! Gateways that count together in a real Redis and publish changes to each other through it. Only the counters and the
//! relay run here, without servers and databases; `many` tests whole gateways.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod compared;
mod gateways;
mod inspected;
mod node_months;
mod outage;
mod relayed;
mod seeded;
mod units;
mod windows;

pub(crate) use gateways::{
    LONG, NOW, SHORT, caller, gateways, in_step, joined, named, number, settings, storm, units_in,
    units_name, used, window_name,
};
pub(crate) use rpcgate_core::backend::counters::{Counters, WindowCount};
pub(crate) use rpcgate_core::backend::{Answer, BoxFuture, Unavailable, suite};
pub(crate) use rpcgate_core::caller::Caller;
pub(crate) use rpcgate_core::clock::Time;
pub(crate) use rpcgate_layers::redis::{CounterState, NoSeed, RedisCounters, RedisSettings, Seed};
pub(crate) use rpcgate_tests::services::redis::{RedisServer, prefix};
pub(crate) use rpcgate_tests::until;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::Ordering::Relaxed;
pub(crate) use std::time::Duration;
pub(crate) use tokio::runtime::Runtime;
pub(crate) use tokio::time::{sleep, timeout};

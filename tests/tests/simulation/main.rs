//! The stack in virtual time, with random clients, keys, plans and nodes, by seeds.
//!
//! A world is one thread whose timers never wait: tokio's clock is paused, and the gateway's clock follows it. Nodes are at the
//! end of the stack instead of behind sockets: they lag, fork, fail, hang and lie about their height. The wall clock jumps, clients
//! leave, and the process is killed between its journal and the shipper, which brings the journal's real files into real
//! databases at the next start. What must be true of every world is in [`report`].
//!
//! A few seeds run here; `tests/simulate` runs a thousand. A world that breaks a promise names its seed, and
//! `SIMULATION_SEED=N SIMULATION_SEEDS=1` runs it again.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod client;
mod fork;
mod nodes;
mod report;
mod seeds;
mod virtual_clock;
mod world;

pub(crate) use client::RandomClient;
pub(crate) use fork::ForkingChain;
pub(crate) use nodes::UnreliableNodes;
pub(crate) use report::SimulationReport;
pub(crate) use rpcgate_core::clock::{Clock, Time};
pub(crate) use rpcgate_tests::gateway::START;
pub(crate) use rpcgate_tests::load::{Dice, TestSeed};
pub(crate) use std::time::Duration;
pub(crate) use virtual_clock::VirtualClock;

/// A number from `from` to `to`, both included.
pub(crate) fn between(dice: &mut Dice, from: u64, to: u64) -> u64 {
    from + dice.below(to - from + 1)
}

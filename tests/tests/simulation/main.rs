//! The stack in virtual time, with random clients, keys, plans and nodes from a seed.
//!
//! A world is one thread whose timers never wait: tokio's clock is paused, and the gateway's clock follows it. The
//! stack is the one that is served, down to the pools of two chains, whose nodes are reached over connections in
//! memory: they lag, fork, lie about their height, answer slowly, badly or never, refuse and close connections, and are
//! drained. The wall clock jumps, clients leave, and the process is killed between its journal and the shipper, which
//! brings the journal's real files into real databases at the next start. The rules for answers are in [`check`], for
//! arrivals at nodes in [`arrivals`], and for counts and bills in [`report`]. Each rule has a test that breaks it.
//!
//! A few seeds run here; `tests/simulate` runs a thousand. A world that breaks a promise prints its seed, and
//! `SIMULATION_SEED=N SIMULATION_SEEDS=1` runs it again.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod arrivals;
mod check;
mod client;
mod fork;
mod node_wire;
mod nodes;
mod pools;
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

/// Returns a number from `from` to `to`, both included.
pub(crate) fn between(dice: &mut Dice, from: u64, to: u64) -> u64 {
    from + dice.below(to - from + 1)
}

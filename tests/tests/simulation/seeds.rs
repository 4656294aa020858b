//! The worlds of some seeds.

use crate::world::{EmptyDatabases, World};
use std::io::Write;

/// Worlds of a run of all tests.
const WORLDS: u64 = 24;

/// Names the seed of a world in which something panics.
struct RunningSeed(u64);

impl Drop for RunningSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "SIMULATION_SEED={}", self.0);
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |value| value.parse().unwrap())
}

#[test]
fn whatever_happens_to_clients_and_nodes_the_promises_hold() {
    let (first, worlds) = (number("SIMULATION_SEED", 1), number("SIMULATION_SEEDS", WORLDS));
    let empty = EmptyDatabases::new();
    let mut broken = Vec::new();
    // Of what the worlds are about.
    let mut sums = [0_u64; 7];
    for seed in first..first + worlds {
        let _running = RunningSeed(seed);
        let report = World::new(seed, &empty).run();
        let counts = [
            report.answers() as u64,
            report.hits,
            report.limited,
            report.over_quota,
            report.left,
            report.reorganisations,
            report.in_flight,
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
        broken.extend(report.broken.iter().map(|what| format!("SIMULATION_SEED={seed}: {what}")));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    // One world alone may lack something.
    assert!(worlds < WORLDS || sums.iter().all(|sum| *sum > 0), "nothing of this kind happened: {sums:?}");
}

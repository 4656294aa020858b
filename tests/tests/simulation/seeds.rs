//! The worlds of some seeds.

use crate::SimulationReport;
use crate::world::{EmptyDatabases, World};
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// The number of worlds in a run of all tests.
const WORLDS: u64 = 24;
/// The number of worlds after which a longer run reports its progress.
const TOLD: u64 = 25;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |value| value.parse().unwrap())
}

#[derive(Default)]
struct Findings {
    worlds: u64,
    broken: Vec<String>,
    sums: BTreeMap<&'static str, u64>,
}

impl Findings {
    fn add(&mut self, seed: u64, report: &SimulationReport) {
        for (what, count) in report.counts() {
            *self.sums.entry(what).or_default() += count;
        }
        for what in &report.broken {
            self.broken(seed, what);
        }
        self.worlds += 1;
    }

    /// Reports a broken promise at once, with the command that runs the world again.
    fn broken(&mut self, seed: u64, what: &str) {
        let told = format!("SIMULATION_SEED={seed} (tests/simulate 1 {seed}): {what}");
        tell(&told);
        self.broken.push(told);
    }
}

fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Runs the world of a seed. A panic in it breaks a promise as well.
fn run(seed: u64, empty: &EmptyDatabases) -> SimulationReport {
    catch_unwind(AssertUnwindSafe(|| World::new(seed, empty).run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        let mut report = SimulationReport::default();
        report.broken(format!("it panics: {text}"));
        report
    })
}

// Shows (Reliability): Under any events at clients, nodes, clocks and the process, no key exceeds its window and no
// project its ceiling by more than a call; each answer is billed once, belongs to its caller, and shows no block that
// was taken back long ago (promise 52).
// Shows (Reliability): Every call is answered within its deadline, never by a node that its client's height excludes;
// no transaction is written twice; retries and hedges stay within their budgets; a drained node gets no new call
// (promise 52).
#[test]
fn the_promises_hold_for_any_events_at_clients_and_nodes() {
    let first = number("SIMULATION_SEED", 1);
    let worlds = number("SIMULATION_SEEDS", WORLDS);
    let empty = EmptyDatabases::new();
    let next = AtomicU64::new(0);
    let findings = Mutex::<Findings>::default();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Relaxed);
                    if place >= worlds {
                        return;
                    }
                    let report = run(first + place, &empty);
                    let mut findings = findings.lock().unwrap();
                    findings.add(first + place, &report);
                    let Findings { worlds: done, broken, .. } = &*findings;
                    if worlds > WORLDS && done.is_multiple_of(TOLD) {
                        tell(&format!("{done} of {worlds} worlds, {} findings", broken.len()));
                    }
                }
            });
        }
    });
    let Findings { broken, sums, .. } = findings.into_inner().unwrap();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    if worlds > WORLDS {
        tell(&format!("{sums:?}"));
    }
    // A single world may lack some kind of event.
    if worlds >= WORLDS {
        assert!(sums.values().all(|sum| *sum > 0), "something of this kind did not happen: {sums:?}");
        assert!(sums["failed calls"] * 2 < sums["served calls"], "most calls are served: {sums:?}");
    }
}

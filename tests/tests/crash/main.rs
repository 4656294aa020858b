//! A gateway that is killed, whose disk is full, or whose database is unreachable loses no usage. The gateway is a
//! separate process; sockets, files and databases are real.
//!
//! `tests/promises.py` tests the same at full size.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod cut;
mod full;
mod kill;
mod replay;
mod slow;
mod unreachable_management;

pub(crate) use rpcgate_core::backend::usage_sink::{Outcome, OwnedRecord};
pub(crate) use rpcgate_core::clock::{Clock, SystemClock, Time};
use rpcgate_core::usage::Metrics;
pub(crate) use rpcgate_server::journal::{Journal, JournalError, JournalOptions};
pub(crate) use rpcgate_tests::load::{Load, LoadReport, Nodes, TestSeed};
pub(crate) use rpcgate_tests::process::{Process, Site, serve};
pub(crate) use rpcgate_tests::stored_usage::{DatabaseLock, StoredUsage};
pub(crate) use std::collections::BTreeMap;
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

/// Runs the gateway of this test binary: see [`Site`].
#[test]
fn serve_where_a_site_asks_for_it() {
    serve();
}

/// Opens a journal, and retries while it is in use. Other tests start processes at the same time. Until such a process
/// executes its own program, it holds the open files of this one, including the lock of a folder.
pub(crate) fn open(options: &JournalOptions) -> Arc<Journal> {
    for _ in 0..10_000 {
        match Journal::open(options.clone()) {
            Err(JournalError::InUse { .. }) => std::thread::sleep(Duration::from_millis(1)),
            journal => return journal.unwrap(),
        }
    }
    panic!("the journal is in use")
}

pub(crate) fn now() -> Time {
    SystemClock::new().now()
}

/// Returns the sums of single events by chain and method, as in rollups, without latency, which is rounded.
pub(crate) fn sums(events: &[OwnedRecord]) -> BTreeMap<(String, String), Metrics> {
    let mut sums: BTreeMap<_, Metrics> = BTreeMap::new();
    for event in events {
        for line in &event.lines {
            let sum = sums.entry((event.chain.clone(), line.method.clone())).or_default();
            let calls = u64::from(line.calls);
            let count = |counts: bool| if counts { calls } else { 0 };
            let is_answer = matches!(line.outcome, Outcome::Answered | Outcome::NodeError);
            sum.add(&Metrics {
                requests: calls,
                billed_requests: count(line.cu > 0),
                billable_units: line.cu.into(),
                errors: count(line.outcome != Outcome::Answered),
                rejected: count(matches!(line.outcome, Outcome::Refused | Outcome::Failed)),
                cache_hits: count(line.cached && is_answer),
                request_bytes: line.bytes_in.into(),
                response_bytes: line.bytes_out.into(),
                ..Metrics::default()
            });
        }
    }
    sums
}

/// Checks that the rollups equal the sums of the single events.
pub(crate) async fn rollups_agree(stored: &StoredUsage, events: &[OwnedRecord]) {
    let newest = events.iter().map(|event| event.arrival).max().unwrap();
    let mut rollups = stored.by_method(newest).await;
    for sum in rollups.values_mut() {
        (sum.latency_us, sum.latency_count) = (0, 0);
    }
    assert_eq!(rollups, sums(events));
}

pub(crate) fn charged(events: &[OwnedRecord]) -> u64 {
    events.iter().flat_map(|event| &event.lines).map(|line| u64::from(line.cu)).sum()
}

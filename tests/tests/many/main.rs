//! Several gateways with one PostgreSQL and one Redis server: all are separate processes, and each may be killed or
//! frozen. Shared counts are exact, and no served call is lost or billed twice.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

mod changes;
mod clock;
mod cluster;
mod compared;
mod crash;
mod frozen;
mod ledger;
mod notify;
mod outage;
mod quota;
mod reload;
mod tls;
mod windows;

pub(crate) use cluster::{Cluster, PLENTY};
pub(crate) use rpcgate_core::clock::{Clock, SystemClock, Time};
pub(crate) use rpcgate_core::plan::Tier;
pub(crate) use rpcgate_tests::client::{TestClient, TestReply};
pub(crate) use rpcgate_tests::gateway::Setup;
pub(crate) use rpcgate_tests::load::{Load, LoadReport, Nodes, TestSeed};
pub(crate) use rpcgate_tests::node::Node;
pub(crate) use rpcgate_tests::process::{Process, Site, manage, serve};
pub(crate) use rpcgate_tests::stored_key::TestKey;
pub(crate) use rpcgate_tests::{SOON, TIMEOUT, until};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::time::Duration;

/// Runs the gateways of this test binary: see [`Site`].
#[test]
fn serve_where_a_site_asks_for_it() {
    serve();
}

/// Runs the management side of this test binary.
#[test]
fn manage_where_a_site_asks_for_it() {
    manage();
}

pub(crate) fn now() -> Time {
    SystemClock::new().now()
}

/// The seconds of an hour, and of a day: the lengths of windows.
pub(crate) const HOUR: u64 = 3_600;
pub(crate) const DAY: u64 = 24 * HOUR;

/// Waits for the next window of `window` seconds if this one is about to end, because its end resets the counts of a
/// test.
pub(crate) async fn early_in(window: u64) {
    /// Longer than a test takes.
    const ENOUGH: u64 = 180;
    let left = window - now().secs() % window;
    if left < ENOUGH {
        tokio::time::sleep(Duration::from_secs(left + 1)).await;
    }
}

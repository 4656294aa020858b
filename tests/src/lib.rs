//! The test harness of rpcgate: everything around the gateway during a test.
//!
//! A test starts scripted [`Node`](node::Node)s and a gateway in front of them with its own clock
//! ([`Setup`](gateway::Setup)), and calls it with a [`TestClient`](client::TestClient). All sockets are real, on the
//! loopback interface; time passes only when the test advances the clock.
//!
//! For crash tests, a [`Site`](process::Site) runs the gateway as a separate process, [`load`] calls it and stores the
//! answers, and [`StoredUsage`](stored_usage::StoredUsage) reads its databases.

pub mod admin;
pub mod authenticator_app;
pub mod bad_nodes;
pub mod browser;
pub mod certificate;
pub mod client;
pub mod collector;
pub mod fault;
pub mod gateway;
pub mod load;
pub mod node;
pub mod observability;
pub mod process;
pub mod receiver;
pub mod services;
pub mod stored_key;
pub mod stored_usage;

use std::time::Duration;

/// The longest time that a test waits for an expected event.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The time within which a gateway follows a change and shows usage.
pub const SOON: Duration = Duration::from_secs(1);

/// Polls until `so` returns true.
///
/// # Panics
/// When that does not happen within [`TIMEOUT`].
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, wait).await.is_ok(), "never happened: {what}");
}

/// Polls until `so` returns true, for at most `limit`.
///
/// # Panics
/// When that does not happen within `limit`.
pub async fn until_within(limit: Duration, what: &str, mut so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(limit, wait).await.is_ok(), "never happened: {what}");
}

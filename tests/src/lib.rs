//! Harness of rpcgate's tests: what stands around the gateway while it is tried.
//!
//! A test starts [`Node`](node::Node)s that do as they are told, a gateway in front of them with a clock of its own
//! ([`Setup`](gateway::Setup)), and speaks to it with a [`TestClient`](client::TestClient). All sockets are real, on the
//! loopback interface; time passes only when the test lets it.
//!
//! Where a gateway must die, a [`Site`](process::Site) runs it as a process of its own, [`load`] calls it and remembers
//! what it was answered, and [`StoredUsage`](stored_usage::StoredUsage) read what is left in its databases.

pub mod admin;
pub mod client;
pub mod fault;
pub mod gateway;
pub mod load;
pub mod node;
pub mod process;
pub mod services;
pub mod stored_key;
pub mod stored_usage;

use std::time::Duration;

/// How long a test waits for something that is bound to happen, before it is said not to happen.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until `so`, looking again and again.
///
/// # Panics
/// When it does not become so within [`TIMEOUT`].
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, wait).await.is_ok(), "never happened: {what}");
}

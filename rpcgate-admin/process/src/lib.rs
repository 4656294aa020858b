//! The process code of both binaries: exit codes, the account, the log, signals, the configuration, node pools, the
//! runtime, traces, metrics, accepting connections, the PROXY protocol, TLS, certificates by ACME, health checks, and
//! packaging files for the command lines.

pub mod accept;
pub mod acme;
pub mod command_docs;
pub mod failure;
pub mod file_handles;
pub mod health;
pub mod host;
pub mod local_account;
pub mod log;
pub mod metrics;
mod node_pool;
mod output;
pub mod proxy_protocol;
pub mod reload;
pub mod settings;
pub mod signals;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;
pub mod traces;
pub mod unread;

pub use command_docs::{CompletionArgs, ManualArgs};
pub use failure::{Failure, exit, exit_with_code};
pub use file_handles::FileHandles;
pub use health::HealthArgs;
pub use host::{host_name, origin};
pub use local_account::LocalAccount;
pub use node_pool::{NodeAuthorities, has_lost_node, is_same_pool, node_pool};
pub use output::CommandOutput;
pub use settings::{CheckArgs, ConfigFile, load, load_noting, log_warnings, placed, warnings, with_sources};
pub use signals::{ProcessSignal, Signals};

use std::io;
use tokio::runtime::{Builder, Runtime};

/// Returns a runtime with a worker thread per core, or `TOKIO_WORKER_THREADS` of them, all called `name`.
///
/// # Errors
/// The operating system's, if it refuses threads.
pub fn runtime(name: &str) -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_name(name).build()
}

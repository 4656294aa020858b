//! Work that goes on when the request that began it has ended.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// Work that nobody waits for.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs work that nobody waits for. A server gives one that its shutdown waits for: what goes on is a call that others
/// wait for, or that is charged for, and its record is written when it ends.
///
/// ```
/// use rpcgate_layers::spawn::{Spawn, Work};
///
/// #[derive(Debug)]
/// struct Tracked(tokio_util::task::TaskTracker);
///
/// impl Spawn for Tracked {
///     fn spawn(&self, work: Work) {
///         self.0.spawn(work);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tracked = Tracked(tokio_util::task::TaskTracker::new());
/// tracked.spawn(Box::pin(tokio::task::yield_now()));
/// tracked.0.close();
/// tracked.0.wait().await;
/// # }
/// ```
pub trait Spawn: Send + Sync + Debug {
    /// Runs `work`. May be called outside a runtime, while one shuts down for instance; then it may be dropped.
    fn spawn(&self, work: Work);
}

/// Runs work in the tokio runtime that it is given from, as a task that nobody knows of.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSpawn;

impl Spawn for TokioSpawn {
    fn spawn(&self, work: Work) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

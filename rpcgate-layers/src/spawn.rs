//! Work that continues after its request has ended.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// Work that no request waits for.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs work that no request waits for. A server implements it with tasks that its shutdown waits for: the work is a
/// call that others wait for, or that is charged, and its record is written at its end.
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
    /// Runs `work`. Outside a runtime, for instance while one shuts down, it may drop the work.
    fn spawn(&self, work: Work);
}

/// Runs work as a task of the current tokio runtime, which nothing waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSpawn;

impl Spawn for TokioSpawn {
    fn spawn(&self, work: Work) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

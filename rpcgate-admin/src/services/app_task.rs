//! A task that works in the background with the state of the management side.

use crate::management::app_state::AppState;
use arc_swap::ArcSwap;
use rpcgate_core::backend::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The state with which a task works now.
pub(super) type CurrentApp = Arc<ArcSwap<AppState>>;

/// A running task. Dropping it asks the task to end.
#[derive(Debug)]
pub(super) struct AppTask {
    app: CurrentApp,
    leave: DropGuard,
    work: JoinHandle<()>,
}

impl AppTask {
    /// Starts `work`, which has to end soon after the token that it gets is cancelled.
    pub(super) fn start<W: Future<Output = ()> + Send + 'static>(
        app: &Arc<AppState>,
        work: impl FnOnce(CurrentApp, CancellationToken) -> W,
    ) -> Self {
        let app = Arc::new(ArcSwap::new(app.clone()));
        let leave = CancellationToken::new();
        let work = tokio::spawn(work(app.clone(), leave.clone()));
        AppTask { app, leave: leave.drop_guard(), work }
    }

    /// Lets the task work as `app` is configured from now on, on the same databases.
    pub(super) fn serve(&self, app: &Arc<AppState>) {
        self.app.store(app.clone());
    }

    /// Asks the task to end, and waits for its end.
    pub(super) fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            drop(self.leave);
            let _ = self.work.await;
        })
    }
}

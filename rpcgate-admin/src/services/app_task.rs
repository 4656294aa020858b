//! A background task that works with the state of the management side.

use arc_swap::ArcSwap;
use rpcgate_core::backend::BoxFuture;
use rpcgate_management::app_state::AppState;
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The state that a task currently uses.
pub(super) type CurrentApp = Arc<ArcSwap<AppState>>;

/// A running task. Dropping it asks the task to end.
#[derive(Debug)]
pub(super) struct AppTask {
    app: CurrentApp,
    leave: DropGuard,
    work: JoinHandle<()>,
}

impl AppTask {
    /// Starts `work`, which must end soon after its token is cancelled.
    pub(super) fn start<W: Future<Output = ()> + Send + 'static>(
        app: &Arc<AppState>,
        work: impl FnOnce(CurrentApp, CancellationToken) -> W,
    ) -> Self {
        let app = Arc::new(ArcSwap::new(app.clone()));
        let leave = CancellationToken::new();
        let work = tokio::spawn(work(app.clone(), leave.clone()));
        AppTask { app, leave: leave.drop_guard(), work }
    }

    /// Makes the task use `app` from now on, on the same databases.
    pub(super) fn serve(&self, app: &Arc<AppState>) {
        self.app.store(app.clone());
    }

    pub(super) fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            drop(self.leave);
            let _ = self.work.await;
        })
    }
}

//! The task that makes the deliveries of replays step by step, and notifies users about withheld events.

use super::app_task::{AppTask, CurrentApp};
use rpcgate_management::action::webhook_failures::notify_of_withheld;
use rpcgate_management::app_state::AppState;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The pause between two checks for a replay.
const INTERVAL: Duration = Duration::from_millis(250);
/// The pause between two steps, which lets other writes proceed.
const BETWEEN: Duration = Duration::from_millis(10);
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause between two checks for endpoints from which events are withheld.
const NOTICES: Duration = Duration::from_secs(5);

pub(super) fn start(app: &Arc<AppState>) -> AppTask {
    AppTask::start(app, work)
}

async fn work(app: CurrentApp, leave: CancellationToken) {
    let mut looked: Option<Duration> = None;
    while !leave.is_cancelled() {
        let app = app.load_full();
        let pause = match app.store.make_replays(app.now()).await {
            Ok(true) => BETWEEN,
            Ok(false) => INTERVAL,
            Err(error) => {
                tracing::debug!(%error, "replays wait for the database");
                AFTER_ERROR
            }
        };
        let elapsed = app.clock.elapsed();
        if looked.is_none_or(|last| elapsed.saturating_sub(last) >= NOTICES || elapsed < last) {
            looked = Some(elapsed);
            if let Err(error) = notify_of_withheld(&app).await {
                tracing::debug!(%error, "users could not be notified of events that are withheld");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = leave.cancelled() => {}
        }
    }
}

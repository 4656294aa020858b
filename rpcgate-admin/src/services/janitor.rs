//! The service that removes expired rows from the management database.

use crate::store::Store;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The pause between two sweeps.
const INTERVAL: Duration = Duration::from_secs(300);

/// The running janitor. Dropping it stops it after its current sweep.
#[derive(Debug)]
pub struct Janitor {
    leave: DropGuard,
    work: JoinHandle<()>,
}

impl Janitor {
    /// Starts a janitor for `store`.
    pub fn start(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self::every(INTERVAL, store, clock)
    }

    fn every(interval: Duration, store: Store, clock: Arc<dyn Clock>) -> Self {
        let leave = CancellationToken::new();
        let work = tokio::spawn(work(interval, store, clock, leave.clone()));
        Janitor { leave: leave.drop_guard(), work }
    }

    /// Stops after the current sweep.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            drop(self.leave);
            let _ = self.work.await;
        })
    }
}

async fn work(interval: Duration, store: Store, clock: Arc<dyn Clock>, leave: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = leave.cancelled() => return,
        }
        match store.sweep(clock.now()).await {
            Ok(swept) => tracing::debug!(?swept, "swept"),
            Err(error) => tracing::warn!(%error, "expired rows could not be removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::app_state::tests::{NOON, Site};
    use crate::store::Role;

    #[tokio::test]
    async fn expired_rows_are_removed_on_time_and_others_stay() {
        let site = Site::new().await;
        let old = site.member(Role::Owner).await;
        site.clock.advance(Duration::from_secs(86_400));
        let young = site.member(Role::Owner).await;
        site.clock.set(NOON.plus(site.app.settings.refresh_ttl));
        let janitor =
            Janitor::every(Duration::from_millis(1), site.app.store.clone(), site.app.clock.clone());
        let swept = async {
            // Rows that are valid at NOON were present all the time, so only the sweep can have removed them.
            while site.app.store.session(old.session, NOON).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), swept).await.unwrap();
        assert!(site.app.store.session(young.session, NOON).await.unwrap().is_some());
        janitor.stop().await;
    }
}

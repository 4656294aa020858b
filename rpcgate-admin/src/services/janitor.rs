//! The role that tidies up: what has expired is removed from the management database.

use crate::store::Store;
use rpcgate_core::clock::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How often it looks.
const PACE: Duration = Duration::from_secs(300);

/// The janitor, at work. Dropped, it ends after the step it is at.
#[derive(Debug)]
pub struct Janitor {
    leave: DropGuard,
    work: JoinHandle<()>,
}

impl Janitor {
    /// Sets a janitor to work in `store`.
    pub fn start(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self::every(PACE, store, clock)
    }

    fn every(pace: Duration, store: Store, clock: Arc<dyn Clock>) -> Self {
        let leave = CancellationToken::new();
        let work = tokio::spawn(work(pace, store, clock, leave.clone()));
        Janitor { leave: leave.drop_guard(), work }
    }

    /// Waits for the step it is at.
    pub async fn stop(self) {
        drop(self.leave);
        let _ = self.work.await;
    }
}

async fn work(pace: Duration, store: Store, clock: Arc<dyn Clock>, leave: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(pace) => {}
            () = leave.cancelled() => return,
        }
        match store.sweep(clock.now()).await {
            Ok(swept) => tracing::debug!(?swept, "swept"),
            Err(error) => tracing::warn!(%error, "what has expired was not removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::app_state::tests::{NOON, Site};
    use crate::store::Role;

    #[tokio::test]
    async fn what_has_expired_is_removed_on_time_and_what_has_not_stays() {
        let site = Site::new().await;
        let old = site.member(Role::Owner).await;
        site.clock.advance(Duration::from_secs(86_400));
        let young = site.member(Role::Owner).await;
        site.clock.set(NOON.plus(site.app.settings.refresh_ttl));
        let janitor =
            Janitor::every(Duration::from_millis(1), site.app.store.clone(), site.app.clock.clone());
        let swept = async {
            // What is live at NOON was there all the time, so only the sweep can take it away.
            while site.app.store.session(old.session, NOON).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), swept).await.unwrap();
        assert!(site.app.store.session(young.session, NOON).await.unwrap().is_some());
        janitor.stop().await;
    }
}

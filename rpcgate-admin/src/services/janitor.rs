//! The service for the work that no request waits for: it sends mails, bills tenants, and removes expired rows from the
//! management database.

use super::biller::Biller;
use super::mail_sender::MailSender;
use crate::management::app_state::AppState;
use crate::store::Store;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The pause between two sweeps.
const INTERVAL: Duration = Duration::from_secs(300);

/// The running janitor. Dropping it stops it after its current work.
#[derive(Debug)]
pub struct Janitor {
    leave: DropGuard,
    work: JoinHandle<()>,
    biller: Biller,
    mails: MailSender,
}

impl Janitor {
    /// Starts a janitor for the databases of `app`.
    pub fn start(app: &Arc<AppState>) -> Self {
        Self::every(INTERVAL, app)
    }

    fn every(interval: Duration, app: &Arc<AppState>) -> Self {
        let leave = CancellationToken::new();
        let work = tokio::spawn(work(interval, app.store.clone(), app.clock.clone(), leave.clone()));
        let (biller, mails) = (Biller::start(app), MailSender::start(app));
        Janitor { leave: leave.drop_guard(), work, biller, mails }
    }

    /// Works as `app` is configured from now on, on the same databases.
    pub fn serve(&self, app: &Arc<AppState>) {
        self.biller.serve(app);
        self.mails.serve(app);
    }

    /// Stops after the current work.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            drop(self.leave);
            self.biller.stop().await;
            self.mails.stop().await;
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
        let janitor = Janitor::every(Duration::from_millis(1), &site.app);
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

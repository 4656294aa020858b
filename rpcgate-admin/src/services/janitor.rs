//! The service for background work: it sends mails, bills tenants, and removes expired rows from the management
//! database.

use super::app_task::{AppTask, CurrentApp};
use super::{biller, mail_sender};
use rpcgate_core::backend::BoxFuture;
use rpcgate_management::action::resealing::{self, Resealed};
use rpcgate_management::app_state::AppState;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(300);

/// The running janitor. Dropping it stops it after its current work.
#[derive(Debug)]
pub struct Janitor {
    tasks: [AppTask; 3],
}

impl Janitor {
    /// Starts a janitor for the databases of `app`.
    pub fn start(app: &Arc<AppState>) -> Self {
        Self::every(INTERVAL, app)
    }

    fn every(interval: Duration, app: &Arc<AppState>) -> Self {
        let sweeper = AppTask::start(app, |app, leave| sweep(interval, app, leave));
        Janitor { tasks: [sweeper, biller::start(app), mail_sender::start(app)] }
    }

    /// Uses `app` from now on, on the same databases.
    pub fn serve(&self, app: &Arc<AppState>) {
        for task in &self.tasks {
            task.serve(app);
        }
    }

    /// Stops after the current work.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            futures_util::future::join_all(self.tasks.map(AppTask::stop)).await;
        })
    }
}

async fn sweep(interval: Duration, app: CurrentApp, leave: CancellationToken) {
    let mut resealed = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = leave.cancelled() => return,
        }
        let app = app.load_full();
        match app.store.sweep(app.now()).await {
            Ok(swept) => tracing::debug!(?swept, "swept"),
            Err(failed) => app.cleanup_failures.report(&failed),
        }
        // Once per configuration: after a secret is replaced, nothing is sealed with it.
        let is_done = resealed.as_ref().is_some_and(|done| Weak::ptr_eq(done, &Arc::downgrade(&app)));
        if app.sealing.has_former() && !is_done && reseal(&app).await {
            resealed = Some(Arc::downgrade(&app));
        }
        let retention = app.settings.config.webhooks.retention;
        match app.store.sweep_events(retention, app.now()).await {
            Ok(swept) => tracing::debug!(?swept, "swept events"),
            Err(failed) => app.cleanup_failures.report(&failed),
        }
    }
}

/// Seals all values of former secrets with the current one, and logs the result. Reports whether nothing is left to do.
async fn reseal(app: &AppState) -> bool {
    match resealing::reseal(app).await {
        Ok(Resealed { renewed, lost: 0 }) => {
            tracing::info!(
                renewed,
                "stored secrets are sealed with the current admin.jwt.secret: the former ones are not needed for them"
            );
            true
        }
        Ok(Resealed { renewed, lost }) => {
            tracing::error!(
                renewed,
                lost,
                "stored secrets were sealed with none of admin.jwt.secret and its former_secrets"
            );
            true
        }
        Err(error) => {
            tracing::warn!(%error, "stored secrets could not be sealed with the current admin.jwt.secret");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{event, project, webhook};
    use crate::testing::{NOON, Site};
    use rpcgate_store::{DeliveryId, DeliveryStatus, Role, fresh_id};

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

    // Shows (Webhooks): Events are kept for `webhooks.retention`, and the newest 100,000 deliveries of an endpoint;
    // data of a deleted endpoint is removed.
    #[tokio::test]
    async fn events_are_kept_as_long_as_configured() {
        let site = Site::of("[webhooks]\nretention = \"2d\"\n").await;
        let owner = site.member(Role::Owner).await;
        let tenant = owner.user.tenant.unwrap();
        let listening = webhook(&site, tenant, project(&site, &owner).await).await;
        let log = async |number: u64| {
            let now = site.app.now();
            let id = DeliveryId(fresh_id(now));
            let event = event(number, now);
            site.app.store.log_event(&listening, (id, DeliveryStatus::Failed), &event).await.unwrap();
            id
        };
        let old = log(1).await;
        site.clock.advance(Duration::from_secs(86_400));
        let young = log(2).await;
        site.clock.advance(Duration::from_secs(86_400));
        let janitor = Janitor::every(Duration::from_millis(1), &site.app);
        let swept = async {
            while site.app.store.delivery(tenant, old).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), swept).await.unwrap();
        assert!(site.app.store.delivery(tenant, young).await.unwrap().is_some());
        janitor.stop().await;
    }
}

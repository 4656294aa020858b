//! The task that sends mails, including those about notifications from gateways.

use super::app_task::{AppTask, CurrentApp};
use rpcgate_management::action::notifications;
use rpcgate_management::app_state::AppState;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The pause between two checks of the database. Mails of this process are sent at once; mails of other processes and
/// retries are sent within this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts to send the mails of `app`. On a stop it finishes the mails that it is sending, for at most `shutdown.grace`.
/// The others are sent after the next start.
pub(super) fn start(app: &Arc<AppState>) -> AppTask {
    AppTask::start(app, work)
}

async fn work(app: CurrentApp, leave: CancellationToken) {
    let mut works = JoinSet::new();
    let grace = loop {
        let app = app.load_full();
        if let Err(error) = notifications::mail_new(&app).await {
            tracing::debug!(%error, "mails of notifications wait for the database");
        }
        if let Err(error) = app.mails.begin_due(&mut works, app.now()).await {
            tracing::debug!(%error, "mails wait for the database");
        }
        tokio::select! {
            () = app.mails.woken() => {}
            Some(_) = works.join_next() => {}
            () = tokio::time::sleep(INTERVAL) => {}
            () = leave.cancelled() => break app.settings.config.shutdown.grace,
        }
    };
    let finished = async { while works.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, finished).await.is_err() {
        tracing::warn!(
            "the mail server is slow: mails that were being sent are sent again after the next start"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use rpcgate_management::mail::{Mail, address};

    async fn send(app: &AppState) {
        let mail = Mail::new(address("ada@example.com").unwrap(), "Hello", "Hello.");
        app.mails.send(&mail, app.now()).await.unwrap();
    }

    async fn until_sent(app: &AppState) {
        let sent = async {
            while app.store.waiting_mails().await.unwrap() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), sent).await.unwrap();
    }

    fn files(folder: &std::path::Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[tokio::test]
    async fn a_mail_is_sent_by_the_sender_of_any_process_and_after_a_reload_as_configured() {
        let site = Site::new().await;
        let other =
            Arc::new(AppState::open(site.app.settings.config.clone(), site.clock.clone()).await.unwrap());
        let sender = start(&site.app);
        send(&site.app).await;
        until_sent(&site.app).await;
        send(&other).await;
        until_sent(&site.app).await;
        let before = &site.app.settings.config.admin.mail.outbox;
        assert_eq!(files(before), 2);
        let mut config = site.app.settings.config.clone();
        config.admin.mail.outbox = before.join("another");
        let again = Arc::new(site.app.reload(config).unwrap());
        sender.serve(&again);
        // A check that is running when the configuration changes may still use the former one.
        send(&again).await;
        until_sent(&again).await;
        send(&again).await;
        until_sent(&again).await;
        assert!(files(&before.join("another")) >= 1);
        sender.stop().await;
        send(&site.app).await;
        assert_eq!(site.app.store.waiting_mails().await.unwrap(), 1, "it waits for the next start");
    }
}

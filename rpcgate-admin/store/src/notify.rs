//! Notifications of changes: a PostgreSQL server notifies its listeners of every committed change.
//!
//! A notification only makes a reader poll sooner. Readers poll the change feed anyway, so they find changes a little
//! later while the connection is cut or the server is frozen.

use super::Store;
use super::server::Server;
use rpcgate_core::backend::BoxFuture;
use sea_orm::sqlx::Executor;
use sea_orm::sqlx::postgres::PgListener;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const CHANNEL: &str = "rpcgate_changes";

const PAUSE: Duration = Duration::from_secs(1);

/// The time within which the server must start to listen or answer a liveness check.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time without a notification after which the server's liveness is checked: a cut connection does not report
/// itself.
const QUIET: Duration = Duration::from_secs(20);

/// Makes the server notify all listeners once `transaction` is committed.
pub(super) async fn send(transaction: &DatabaseTransaction) -> Result<(), DbErr> {
    if transaction.get_database_backend() == DbBackend::Postgres {
        transaction.execute_unprepared(&format!("NOTIFY {CHANNEL}")).await?;
    }
    Ok(())
}

impl Store {
    /// Calls `on_change` when there may be new changes, while this future is polled. SQLite files have no
    /// notifications. Changes while no connection listens are not reported, so this does not replace polling.
    pub fn notifications<'a>(&'a self, on_change: &'a (dyn Fn() + Send + Sync)) -> BoxFuture<'a, ()> {
        Box::pin(self.notify_within(QUIET, PATIENCE, on_change))
    }

    async fn notify_within(&self, quiet: Duration, patience: Duration, on_change: &(dyn Fn() + Send + Sync)) {
        let Some(server) = self.database.server() else { return std::future::pending().await };
        loop {
            listen(server, quiet, patience, on_change).await;
            sleep(PAUSE).await;
        }
    }
}

async fn listen(server: &Server, quiet: Duration, patience: Duration, on_change: &(dyn Fn() + Send + Sync)) {
    let listening = async {
        let mut listener = PgListener::connect_with(&server.single()).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok::<_, sea_orm::sqlx::Error>(listener)
    };
    let mut listener = match timeout(patience, listening).await {
        Ok(Ok(listener)) => listener,
        Ok(Err(error)) => return tracing::debug!(%error, "no notifications of changes: polling only"),
        Err(_) => return tracing::debug!("no notifications of changes: polling only"),
    };
    // Changes may have happened before.
    on_change();
    loop {
        match timeout(quiet, listener.try_recv()).await {
            Ok(Ok(Some(_))) => on_change(),
            Ok(Ok(None)) => return tracing::debug!("the connection for notifications of changes has ended"),
            Ok(Err(error)) => {
                return tracing::debug!(%error, "the connection for notifications of changes has ended");
            }
            Err(_) => match timeout(patience, listener.execute("SELECT 1")).await {
                Ok(Ok(_)) => {}
                _ => return tracing::debug!("the connection for notifications of changes no longer answers"),
            },
        }
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
mod tests {
    use super::*;
    use crate::testing::TestDatabase;
    use crate::testing::postgres::Postgres;
    use rpcgate_core::clock::Time;
    use std::sync::Arc;
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    const ENOUGH: Duration = Duration::from_secs(60);

    async fn store(url: &str) -> Store {
        // On a loaded machine, opening may take longer than a gateway's deadline.
        for _ in 0..100 {
            if let Ok(store) = Store::open(url, true).await {
                return store;
            }
        }
        panic!("the server does not answer");
    }

    async fn change(store: &Store) {
        for _ in 0..100 {
            if store.switch_chain("toy", true, Time::from_secs(1)).await.is_ok() {
                return;
            }
        }
        panic!("the server does not answer");
    }

    struct Listener {
        notified: Arc<Notify>,
        task: JoinHandle<()>,
    }

    impl Listener {
        async fn new(store: &Store, quiet: Duration) -> Self {
            let notified = Arc::new(Notify::new());
            let store = store.clone();
            let notify = notified.clone();
            let listening = async move {
                store.notify_within(quiet, Duration::from_secs(2), &|| notify.notify_one()).await;
            };
            let listener = Listener { notified, task: tokio::spawn(listening) };
            listener.hears("that it listens").await;
            listener
        }

        async fn hears(&self, what: &str) {
            assert!(timeout(ENOUGH, self.notified.notified()).await.is_ok(), "{what} is not heard");
        }
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    #[tokio::test]
    async fn all_listeners_are_notified_of_every_change() {
        let site = TestDatabase::server();
        let one = store(site.url()).await;
        let other = store(site.url()).await;
        let listeners = [Listener::new(&one, QUIET).await, Listener::new(&other, QUIET).await];
        for _ in 0..3 {
            change(&one).await;
            for listener in &listeners {
                listener.hears("a change").await;
            }
        }
    }

    #[tokio::test]
    async fn a_closed_connection_is_opened_again() {
        let site = TestDatabase::server();
        let store = store(site.url()).await;
        let listener = Listener::new(&store, QUIET).await;
        for _ in 0..2 {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND query LIKE 'LISTEN%'";
            let ended = store.database.transact(async |transaction| {
                Ok::<_, crate::StoreError>(transaction.execute_unprepared(end).await?.rows_affected())
            });
            assert_eq!(ended.await.unwrap(), 1);
            listener.hears("that it listens again").await;
            change(&store).await;
            listener.hears("a change").await;
        }
    }

    #[tokio::test]
    async fn a_server_that_was_frozen_is_listened_to_again() {
        let server = Postgres::launch();
        let store = store(&server.database()).await;
        let listener = Listener::new(&store, Duration::from_millis(100)).await;
        server.freeze();
        // The listener gets no answer and closes the connection, so it receives nothing on the old one.
        tokio::time::sleep(Duration::from_secs(4)).await;
        server.thaw();
        listener.hears("that it listens again").await;
        change(&store).await;
        listener.hears("a change").await;
    }

    #[tokio::test]
    async fn a_file_database_sends_no_notifications() {
        let site = TestDatabase::file();
        let store = store(site.url()).await;
        tokio::time::pause();
        let listening = store.notifications(&|| panic!("there are no listeners"));
        assert!(timeout(Duration::from_secs(3_600), listening).await.is_err());
    }
}

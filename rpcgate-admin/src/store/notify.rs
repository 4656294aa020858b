//! A notify for who follows the change feed: a PostgreSQL server tells its listeners of every change as it is committed.
//!
//! It only makes a reader look sooner. Whoever follows the feed looks at it from time to time all the same, so nothing
//! depends on a notify: while the way to the server is cut, or the server frozen, changes are found a little later.

use super::Store;
use super::server::Server;
use sea_orm::sqlx::Executor;
use sea_orm::sqlx::postgres::PgListener;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What the server calls it, of one database.
const CHANNEL: &str = "rpcgate_changes";

/// Time between two attempts to listen.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the server may take to begin to listen, or to say that it is still there.
const PATIENCE: Duration = Duration::from_secs(5);

/// After so long without a word the server is asked whether it is still there: a way that is cut says nothing.
const QUIET: Duration = Duration::from_secs(20);

/// Has the server tell all that listen, once `transaction` is committed.
pub(super) async fn send(transaction: &DatabaseTransaction) -> Result<(), DbErr> {
    if transaction.get_database_backend() == DbBackend::Postgres {
        transaction.execute_unprepared(&format!("NOTIFY {CHANNEL}")).await?;
    }
    Ok(())
}

impl Store {
    /// Calls `look` whenever there may be new changes, for as long as this is waited for; a file of SQLite tells
    /// nothing. What happens while it cannot listen is not told, so this does not replace a look from time to time.
    pub async fn notifications(&self, look: impl Fn()) {
        self.nudges_within(QUIET, PATIENCE, look).await;
    }

    async fn nudges_within(&self, quiet: Duration, patience: Duration, look: impl Fn()) {
        let Some(server) = self.database.server() else { return std::future::pending().await };
        loop {
            listen(server, quiet, patience, &look).await;
            sleep(PAUSE).await;
        }
    }
}

/// Listens until that is over, for whatever reason.
async fn listen(server: &Server, quiet: Duration, patience: Duration, look: &impl Fn()) {
    let listening = async {
        let mut listener = PgListener::connect_with(&server.single()).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok::<_, sea_orm::sqlx::Error>(listener)
    };
    let mut listener = match timeout(patience, listening).await {
        Ok(Ok(listener)) => listener,
        Ok(Err(error)) => return tracing::debug!(%error, "nobody tells of changes: they are looked for"),
        Err(_) => return tracing::debug!("nobody tells of changes: they are looked for"),
    };
    // There may have been some before.
    look();
    loop {
        match timeout(quiet, listener.try_recv()).await {
            Ok(Ok(Some(_))) => look(),
            Ok(Ok(None)) => return tracing::debug!("the connection that tells of changes has ended"),
            Ok(Err(error)) => {
                return tracing::debug!(%error, "the connection that tells of changes has ended");
            }
            Err(_) => match timeout(patience, listener.execute("SELECT 1")).await {
                Ok(Ok(_)) => {}
                _ => return tracing::debug!("the connection that tells of changes says nothing more"),
            },
        }
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
mod tests {
    use super::*;
    use crate::store::site::Site;
    use crate::store::site::postgres::Postgres;
    use rpcgate_core::clock::Time;
    use std::sync::Arc;
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    /// Enough on a loaded machine too.
    const ENOUGH: Duration = Duration::from_secs(60);

    async fn store(url: &str) -> Store {
        // On a loaded machine opening may take longer than a call of a gateway may.
        for _ in 0..100 {
            if let Ok(store) = Store::open(url, true).await {
                return store;
            }
        }
        panic!("the server does not answer");
    }

    /// Changes something, once the server does it.
    async fn change(store: &Store) {
        for _ in 0..100 {
            if store.switch_chain("toy", true, Time::from_secs(1)).await.is_ok() {
                return;
            }
        }
        panic!("the server does not answer");
    }

    struct Ear {
        rung: Arc<Notify>,
        task: JoinHandle<()>,
    }

    impl Ear {
        /// Listens from here on.
        async fn new(store: &Store, quiet: Duration) -> Self {
            let (rung, store) = (Arc::new(Notify::new()), store.clone());
            let bell = rung.clone();
            let listening =
                async move { store.nudges_within(quiet, Duration::from_secs(2), || bell.notify_one()).await };
            let ear = Ear { rung, task: tokio::spawn(listening) };
            ear.hears("that it listens").await;
            ear
        }

        async fn hears(&self, what: &str) {
            assert!(timeout(ENOUGH, self.rung.notified()).await.is_ok(), "{what} is not heard");
        }
    }

    impl Drop for Ear {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    #[tokio::test]
    async fn every_change_is_told_to_all_who_listen() {
        let site = Site::server();
        let (one, other) = (store(site.url()).await, store(site.url()).await);
        let ears = [Ear::new(&one, QUIET).await, Ear::new(&other, QUIET).await];
        for _ in 0..3 {
            change(&one).await;
            for ear in &ears {
                ear.hears("a change").await;
            }
        }
    }

    #[tokio::test]
    async fn a_connection_that_was_ended_is_made_anew() {
        let site = Site::server();
        let store = store(site.url()).await;
        let ear = Ear::new(&store, QUIET).await;
        for _ in 0..2 {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND query LIKE 'LISTEN%'";
            let ended = store.database.transact(async |transaction| {
                Ok::<_, crate::store::StoreError>(transaction.execute_unprepared(end).await?.rows_affected())
            });
            assert_eq!(ended.await.unwrap(), 1);
            ear.hears("that it listens again").await;
            change(&store).await;
            ear.hears("a change").await;
        }
    }

    #[tokio::test]
    async fn a_server_that_was_frozen_is_listened_to_again() {
        let server = Postgres::launch();
        let store = store(&server.database()).await;
        let ear = Ear::new(&store, Duration::from_millis(100)).await;
        server.freeze();
        // It finds nobody there, and hangs up: from then on it does not hear on the old connection.
        tokio::time::sleep(Duration::from_secs(4)).await;
        server.thaw();
        ear.hears("that it listens again").await;
        change(&store).await;
        ear.hears("a change").await;
    }

    #[tokio::test]
    async fn a_file_tells_nothing() {
        let site = Site::file();
        let store = store(site.url()).await;
        tokio::time::pause();
        let listening = store.notifications(|| panic!("there is nobody to tell"));
        assert!(timeout(Duration::from_secs(3_600), listening).await.is_err());
    }
}

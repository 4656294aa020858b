//! Statements of SQLite end when nobody waits for them any more.
//!
//! SQLite computes a statement in a thread that hears of nothing until the next row: one that adds up a month kept its
//! connection for as long as that takes, although its caller had been told long ago that it is late. SQLite asks now and
//! then whether it is to go on.

use sea_orm::sqlx::pool::PoolOptions;
use sea_orm::sqlx::{Error, Sqlite, SqliteConnection};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Instructions of SQLite's machine between two questions: some tenths of a millisecond.
const STEPS: i32 = 10_000;

tokio::task_local! {
    /// Whether what is done in this task was given up.
    static GIVEN_UP: Arc<AtomicBool>;
}

/// Does `work`. If this is dropped before it is done, statements that it has begun end.
pub(super) async fn while_waited_for<T>(work: impl Future<Output = T>) -> T {
    let watch = Watch { given_up: Arc::default(), done: false };
    let done = GIVEN_UP.scope(watch.given_up.clone(), work).await;
    watch.done();
    done
}

/// Tells statements when their caller goes.
struct Watch {
    given_up: Arc<AtomicBool>,
    done: bool,
}

impl Watch {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.done {
            self.given_up.store(true, Ordering::Relaxed);
        }
    }
}

/// Has all statements of a connection end with whoever takes it out of the pool for [work](while_waited_for). For anybody
/// else, as while the schema is brought up to date, they take as long as they want.
pub(super) fn given_up_statements(pool: PoolOptions<Sqlite>) -> PoolOptions<Sqlite> {
    pool.after_connect(|connection, _| Box::pin(heed(connection)))
        .before_acquire(|connection, _| Box::pin(async { heed(connection).await.map(|()| true) }))
}

async fn heed(connection: &mut SqliteConnection) -> Result<(), Error> {
    let given_up = GIVEN_UP.try_with(Arc::clone).ok();
    let mut handle = connection.lock_handle().await?;
    match given_up {
        Some(given_up) => handle.set_progress_handler(STEPS, move || !given_up.load(Ordering::Relaxed)),
        None => handle.remove_progress_handler(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::store::StoreError;
    use crate::store::site::Site;
    use sea_orm::{ConnectionTrait, DbBackend, Statement};
    use std::time::Duration;

    /// Counts for about an hour.
    const LONG: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000) SELECT count(*) FROM n";

    #[tokio::test]
    async fn a_statement_that_nobody_waits_for_gives_its_connection_back() {
        let site = Site::file();
        let store = site.usage_within(Duration::from_millis(300)).await.unwrap();
        let count = async || {
            let ask = Statement::from_string(DbBackend::Sqlite, LONG);
            store.read(async |database| Ok(database.query_one_raw(ask).await?)).await
        };
        // More of them at once than there are connections, and once more: whoever comes finds one in time.
        for _ in 0..2 {
            let late = tokio::join!(count(), count(), count(), count());
            for late in <[_; 4]>::from(late) {
                assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
            }
        }
        let ask = Statement::from_string(DbBackend::Sqlite, "SELECT 1");
        let answered =
            async || store.read(async |database| Ok(database.query_one_raw(ask.clone()).await?)).await;
        let soon = async { while answered().await.is_err() {} };
        tokio::time::timeout(Duration::from_secs(60), soon).await.unwrap();
    }
}

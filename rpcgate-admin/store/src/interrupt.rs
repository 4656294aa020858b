//! Interrupts SQLite statements whose callers have gone.
//!
//! SQLite runs a statement in a thread that notices nothing until the next row. A statement that adds up a month would
//! keep its connection to the end, long after its caller got a timeout. SQLite's progress handler asks at intervals
//! whether to continue.

use sea_orm::sqlx::pool::PoolOptions;
use sea_orm::sqlx::{Error, Sqlite, SqliteConnection};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of virtual machine instructions between two calls of SQLite's progress handler: some tenths of a
/// millisecond.
const INSTRUCTIONS_PER_CHECK: i32 = 10_000;

tokio::task_local! {
    static CANCELLED: Arc<AtomicBool>;
}

/// Runs `work`. If this future is dropped early, the statements that it has begun end.
pub(super) async fn cancel_on_drop<T>(work: impl Future<Output = T>) -> T {
    let guard = CancelOnDrop { cancelled: Arc::default(), done: false };
    let done = CANCELLED.scope(guard.cancelled.clone(), work).await;
    guard.done();
    done
}

struct CancelOnDrop {
    cancelled: Arc<AtomicBool>,
    done: bool,
}

impl CancelOnDrop {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.done {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }
}

/// Makes all statements of a connection end when the [future](cancel_on_drop) that took it from the pool is dropped.
/// Statements outside such a future, for example migrations, run to their end.
pub(super) fn cancellable_statements(pool: PoolOptions<Sqlite>) -> PoolOptions<Sqlite> {
    pool.after_connect(|connection, _| Box::pin(watch_cancellation(connection))).before_acquire(
        |connection, _| Box::pin(async { watch_cancellation(connection).await.map(|()| true) }),
    )
}

async fn watch_cancellation(connection: &mut SqliteConnection) -> Result<(), Error> {
    let cancelled = CANCELLED.try_with(Arc::clone).ok();
    let mut handle = connection.lock_handle().await?;
    match cancelled {
        Some(cancelled) => {
            handle.set_progress_handler(INSTRUCTIONS_PER_CHECK, move || !cancelled.load(Ordering::Relaxed));
        }
        None => handle.remove_progress_handler(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::StoreError;
    use crate::testing::TestDatabase;
    use sea_orm::{ConnectionTrait, DbBackend, Statement};
    use std::time::Duration;

    const LONG: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000) SELECT count(*) FROM n";

    #[tokio::test]
    async fn an_abandoned_statement_returns_its_connection() {
        let site = TestDatabase::file();
        let store = site.usage_within(Duration::from_secs(1)).await.unwrap();
        let count = async || {
            let ask = Statement::from_string(DbBackend::Sqlite, LONG);
            store.read(async |database| Ok(database.query_one_raw(ask).await?)).await
        };
        // More queries than there are connections, twice: each later caller gets a connection in time.
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

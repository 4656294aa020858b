//! Connections to a database, and the deadline of every call.
//!
//! SQLite allows one writer at a time, so there is one connection for writes and a few for reads, which its write-ahead
//! log isolates from each other. A write takes its lock when it begins (`BEGIN IMMEDIATE`): a transaction that reads
//! first and asks for the lock later can fail at once if another process is writing, whatever its busy timeout. On a
//! server too, a write begins with a lock that all programs share, so that its reads stay valid until it ends.

use super::database_location::{DatabaseLocation, create, refused};
use super::error::{StoreError, is_busy};
use super::interrupt;
use super::queue::Queue;
use super::server::{self, AdvisoryLock, Server};
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    ConnectOptions, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, IsolationLevel,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use sea_orm_migration::MigratorTrait;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// The deadline of a call to a management database on a server, which may be frozen. A client with a timeout of one
/// second still gets our error rather than its own timeout.
const SERVER_DEADLINE: Duration = Duration::from_millis(900);

/// The deadline of a call to a management database on a server.
#[cfg(not(any(test, feature = "testing")))]
pub(super) const fn server_deadline() -> Duration {
    SERVER_DEADLINE
}

#[cfg(any(test, feature = "testing"))]
static IS_SERVER_SHARED: AtomicBool = AtomicBool::new(false);

/// Gives each call to a server 20 seconds from now on: the tests of a process share one server and two processors. Tests of
/// deadlines set their own.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn share_server() {
    IS_SERVER_SHARED.store(true, Ordering::Relaxed);
}

/// The deadline of a call to a management database on a server.
#[cfg(any(test, feature = "testing"))]
pub(super) fn server_deadline() -> Duration {
    if IS_SERVER_SHARED.load(Ordering::Relaxed) { Duration::from_secs(20) } else { SERVER_DEADLINE }
}

/// Read connections to a file.
const READERS: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct Database {
    writer: Arc<DatabasePool>,
    readers: Arc<DatabasePool>,
    lock: AdvisoryLock,
    deadline: Duration,
}

#[derive(Debug)]
struct DatabasePool {
    location: DatabaseLocation,
    writes: bool,
    connection: Mutex<DatabaseConnection>,
    queue: Queue,
    /// Set if the connections must be replaced before their next use. With SQLite, this happens when a transaction did
    /// not end properly or its outcome is unknown. If SQLite itself rolls one back because the disk failed, the driver
    /// believes that it is still open and treats later statements as a part of it, which is never committed. With a
    /// server, it happens when a call missed its deadline.
    broken: AtomicBool,
}

impl DatabasePool {
    async fn open(
        location: &DatabaseLocation,
        writes: bool,
        deadline: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        let connection = match location {
            DatabaseLocation::File(file) => connect_retrying(file, deadline, writes).await?,
            DatabaseLocation::Server(server) => server.connections(deadline, writes),
        };
        let connections = match location {
            _ if writes => 1,
            DatabaseLocation::File(_) => READERS,
            DatabaseLocation::Server(_) => server::READERS,
        };
        let location = location.clone();
        let connection = Mutex::new(connection);
        let queue = Queue::new(connections);
        Ok(Arc::new(DatabasePool { location, writes, connection, queue, broken: AtomicBool::new(false) }))
    }

    fn connection(&self) -> MutexGuard<'_, DatabaseConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connections, replaced first if they are broken.
    async fn usable(&self, deadline: Duration) -> Result<DatabaseConnection, StoreError> {
        if self.broken.swap(false, Ordering::AcqRel)
            && let Err(error) = self.reconnect(deadline).await
        {
            self.broken.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(self.connection().clone())
    }

    async fn reconnect(&self, deadline: Duration) -> Result<(), StoreError> {
        let fresh = match &self.location {
            DatabaseLocation::File(file) => {
                // The old connection is closed first, because it may hold the lock.
                let old = self.connection().clone();
                let closed = async { Ok(old.close_by_ref().await?) };
                if let Err::<_, StoreError>(error) = within(deadline, closed).await {
                    tracing::debug!(%error, "a broken connection did not close cleanly");
                }
                connect_retrying(file, deadline, self.writes).await?
            }
            // Calls that wait on the old connections do so until their own deadlines; the connections close with the
            // last of them.
            DatabaseLocation::Server(server) => server.connections(deadline, self.writes),
        };
        *self.connection() = fresh;
        Ok(())
    }
}

struct CallGuard {
    pool: Arc<DatabasePool>,
    deadline: Duration,
    permit: Option<OwnedSemaphorePermit>,
}

impl CallGuard {
    fn release(mut self) {
        self.permit = None;
    }
}

impl Drop for CallGuard {
    /// Handles a call that was dropped before its end. A server continues a statement whose client has gone, so the
    /// connection becomes free only when that statement ends. The permit is held until then: otherwise the next call
    /// would wait for the connection and take the server for frozen.
    fn drop(&mut self) {
        let (Some(permit), DatabaseLocation::Server(_)) = (self.permit.take(), &self.pool.location) else {
            return;
        };
        let Ok(runtime) = Handle::try_current() else { return };
        let pool = self.pool.clone();
        let deadline = self.deadline;
        runtime.spawn(async move {
            let connections = pool.connection().get_postgres_connection_pool().clone();
            if !matches!(tokio::time::timeout(deadline, connections.acquire()).await, Ok(Ok(_))) {
                pool.broken.store(true, Ordering::Release);
            }
            drop(permit);
        });
    }
}

/// Marks SQLite's connection as broken when dropped, unless [disarmed](Self::disarm) because the transaction has ended.
/// A server needs no guard: the driver tests a connection before it hands it out again.
struct BrokenGuard<'a>(&'a DatabasePool);

impl BrokenGuard<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for BrokenGuard<'_> {
    fn drop(&mut self) {
        if let DatabaseLocation::File(_) = self.0.location {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

impl Database {
    /// Opens the database at `location`, creates the file if it is missing, and brings the schema up to date. Calls end
    /// after `deadline`; writes take `lock` if other programs share the database.
    ///
    /// # Errors
    /// [`StoreError::File`], [`StoreError::Server`], [`StoreError::Unavailable`], and [`StoreError::Outdated`] if
    /// `migrate` is false and the schema is not up to date.
    pub(super) async fn open<M: MigratorTrait>(
        location: &DatabaseLocation,
        migrate: bool,
        lock: AdvisoryLock,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        match location {
            DatabaseLocation::File(file) if migrate => create(file)?,
            DatabaseLocation::File(file) if !fs::exists(file).unwrap_or(true) => {
                return Err(StoreError::Outdated(location.to_string()));
            }
            DatabaseLocation::File(_) => {}
            DatabaseLocation::Server(server) => within(deadline, server.test_connection()).await?,
        }
        let writer = within(deadline, DatabasePool::open(location, true, deadline)).await?;
        let connection = writer.connection().clone();
        let pending = within(deadline, async {
            M::get_pending_migrations_read_only(&connection).await.map_err(|error| match (error, location) {
                // This error has only one cause here: a recorded migration that this program does not know.
                (DbErr::Custom(_), DatabaseLocation::File(file)) => refused(file, NEWER),
                (DbErr::Custom(_), DatabaseLocation::Server(server)) => server.refused(NEWER),
                (error, _) => error.into(),
            })
        })
        .await?;
        if !pending.is_empty() && !migrate {
            return Err(StoreError::Outdated(location.to_string()));
        }
        let readers = within(deadline, DatabasePool::open(location, false, deadline)).await?;
        let database = Database { writer, readers, lock, deadline };
        if !pending.is_empty() {
            // One transaction for all migrations, so that two programs that start together do not both create a table.
            // There is no deadline once the lock is held, because rewriting a large table may take long.
            let transaction = within(deadline, database.begin()).await?;
            if let DatabaseLocation::Server(_) = location {
                transaction.execute_unprepared("SET LOCAL statement_timeout = 0").await?;
            }
            M::up(&transaction, None).await?;
            transaction.commit().await?;
            tracing::info!(database = %location, steps = pending.len(), "the schema was brought up to date");
        }
        Ok(database)
    }

    pub(super) fn server(&self) -> Option<&Server> {
        match &self.writer.location {
            DatabaseLocation::File(_) => None,
            DatabaseLocation::Server(server) => Some(server),
        }
    }

    /// Returns the longest duration of a call, including its wait for a connection.
    pub(super) fn longest_call(&self) -> Duration {
        self.deadline.saturating_add(self.deadline / 2)
    }

    /// Calls `observe` with each statement of later writes.
    #[cfg(test)]
    pub(super) fn observe_writes(&self, observe: impl Fn(&str) + Send + Sync + 'static) {
        self.writer.connection().set_metric_callback(move |done| observe(&done.statement.sql));
    }

    /// Begins a write, which holds the lock from the start and is rolled back unless committed.
    pub(super) async fn begin(&self) -> Result<DatabaseTransaction, StoreError> {
        let transaction = self.begin_unlocked().await?;
        if self.server().is_some() {
            self.lock.wait(&transaction).await?;
        }
        Ok(transaction)
    }

    async fn begin_unlocked(&self) -> Result<DatabaseTransaction, StoreError> {
        let immediate = Some(SqliteTransactionMode::Immediate);
        let options = TransactionOptions { sqlite_transaction_mode: immediate, ..Default::default() };
        let connection = self.writer.usable(self.deadline).await?;
        let broken_guard = BrokenGuard(&self.writer);
        let begun = connection.begin_with_options(options).await;
        if begun.as_ref().map_or_else(is_busy, |_| true) {
            broken_guard.disarm();
        }
        Ok(begun?)
    }

    pub(super) fn with_deadline(&self, deadline: Duration) -> Self {
        Database { deadline, ..self.clone() }
    }

    /// Runs `work`, which cannot write, within the deadline.
    pub(super) async fn read<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let read = async { work(&self.readers.usable(self.deadline).await?).await };
        self.with_connection(&self.readers, Box::pin(read)).await
    }

    pub(super) async fn snapshot<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.read(async |database| {
            // SQLite gives every transaction the snapshot of its first read and has no other isolation level.
            let isolation = self.server().map(|_| IsolationLevel::RepeatableRead);
            let moment = database.begin_with_config(isolation, None).await.map_err(StoreError::from)?;
            work(&moment).await
        })
        .await
    }

    /// Runs `work` in one transaction, within the deadline.
    pub(super) async fn transact<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let write = async { self.finish(self.begin().await?, work).await };
        self.with_connection(&self.writer, Box::pin(write)).await
    }

    /// Like [`transact`](Self::transact), for work that many callers share and that runs once at a time. It may exceed
    /// the queue's limit; otherwise all these callers would be refused at once.
    pub(super) async fn transact_shared<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let write = async { self.finish(self.begin().await?, work).await };
        let permit = self.writer.queue.wait_beyond_bound(self.deadline / 2).await?;
        self.with_permit(&self.writer, permit, Box::pin(write)).await
    }

    /// Like [`transact`](Self::transact), but does not wait for `lock`: several programs do this work at once and lock
    /// their rows.
    pub(super) async fn transact_concurrently<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let write = async { self.finish(self.begin_unlocked().await?, work).await };
        self.with_connection(&self.writer, Box::pin(write)).await
    }

    /// Like [`transact`](Self::transact), for work that one program does for all. It does not wait for `lock`, and
    /// returns `None` if another program holds it.
    pub(super) async fn transact_exclusive<T, E: From<StoreError>>(
        &self,
        lock: AdvisoryLock,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let write = async {
            let transaction = self.begin_unlocked().await?;
            self.finish(transaction, async |transaction| {
                if self.server().is_some() && !lock.try_take(transaction).await.map_err(StoreError::from)? {
                    return Ok(None);
                }
                work(transaction).await.map(Some)
            })
            .await
        };
        self.with_connection(&self.writer, Box::pin(write)).await
    }

    async fn finish<T, E: From<StoreError>>(
        &self,
        transaction: DatabaseTransaction,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let broken_guard = BrokenGuard(&self.writer);
        match work(&transaction).await {
            Ok(done) => {
                transaction.commit().await.map_err(StoreError::from)?;
                broken_guard.disarm();
                Ok(done)
            }
            Err(error) => {
                if transaction.rollback().await.is_ok() {
                    broken_guard.disarm();
                }
                Err(error)
            }
        }
    }

    /// Runs `work` once `pool` has a connection for it. The wait takes at most half the deadline, and `work` at most
    /// the whole deadline: a stuck machine does not report even its own timeouts. Work that is cut short is rolled
    /// back. `work` is boxed because it is large and would otherwise be a part of every future that waits for a
    /// database.
    async fn with_connection<T, E: From<StoreError>>(
        &self,
        pool: &Arc<DatabasePool>,
        work: Pin<Box<impl Future<Output = Result<T, E>>>>,
    ) -> Result<T, E> {
        let permit = pool.queue.wait(self.deadline / 2).await?;
        self.with_permit(pool, permit, work).await
    }

    async fn with_permit<T, E: From<StoreError>>(
        &self,
        pool: &Arc<DatabasePool>,
        permit: OwnedSemaphorePermit,
        work: Pin<Box<impl Future<Output = Result<T, E>>>>,
    ) -> Result<T, E> {
        let guard = CallGuard { pool: pool.clone(), deadline: self.deadline, permit: Some(permit) };
        let done = tokio::time::timeout(self.deadline, interrupt::cancel_on_drop(work)).await;
        guard.release();
        let Ok(done) = done else {
            if self.server().is_some() {
                // The server may have been replaced, and connections to the old one would stay silent.
                self.writer.broken.store(true, Ordering::Release);
                self.readers.broken.store(true, Ordering::Release);
            }
            return Err(StoreError::late(self.deadline).into());
        };
        done
    }

    /// Closes all connections, which checkpoints the log into the file. Waits at most one deadline for running calls;
    /// the next open of the file commits them or rolls them back.
    pub(super) async fn close(&self) {
        for pool in [&self.readers, &self.writer] {
            let connections = pool.connection().clone();
            let closed = async { Ok(connections.close_by_ref().await?) };
            if let Err::<_, StoreError>(error) = within(self.deadline, closed).await {
                tracing::warn!(%error, "database connections did not close cleanly");
            }
        }
    }
}

/// The error text for a database with a migration that this program does not know.
pub const NEWER: &str = "was made by a newer version of this program";

async fn within<T, E: From<StoreError>>(
    deadline: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| Err(StoreError::late(deadline).into()))
}

/// Calls [`connect`] and retries while the file is locked. Two programs that open a new file at the same time collide
/// when both turn on the write-ahead log, and SQLite does not wait for the lock there.
async fn connect_retrying(
    file: &Path,
    deadline: Duration,
    writes: bool,
) -> Result<DatabaseConnection, StoreError> {
    loop {
        match connect(file, deadline, writes).await {
            Ok(connection) => return Ok(connection),
            Err(error) if is_busy(&error) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(refused(file, &format!("cannot be opened: {error}"))),
        }
    }
}

async fn connect(file: &Path, deadline: Duration, writes: bool) -> Result<DatabaseConnection, DbErr> {
    let file = file.to_owned();
    // The file name is set below, because within a URL it would be parsed as part of the URL.
    let mut options = ConnectOptions::new("sqlite://rpcgate.db");
    let connections = if writes { 1 } else { READERS };
    options
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(deadline)
        .idle_timeout(None)
        .max_lifetime(None)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_sqlite_pool_opts(interrupt::cancellable_statements)
        .map_sqlx_sqlite_opts(move |sqlite| {
            let sqlite = sqlite
                .filename(&file)
                .create_if_missing(false)
                .journal_mode(SqliteJournalMode::Wal)
                // Acknowledged writes must survive a power failure. This includes usage, because the gateway removes
                // its journal after a shipment.
                .synchronous(SqliteSynchronous::Full)
                .foreign_keys(true)
                // SQLite gives up before our deadline, so that no statement still waits for a lock after it.
                .busy_timeout(deadline.mul_f32(0.8));
            if writes { sqlite } else { sqlite.pragma("query_only", "ON") }
        });
    sea_orm::Database::connect(options).await
}

#[cfg(test)]
mod tests;

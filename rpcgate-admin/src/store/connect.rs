//! The way to a database: its connections, and the deadline that every call has.
//!
//! SQLite lets one connection write at a time, so there is one for writes and a few for reads, which its write-ahead
//! log keeps apart. A write begins with the lock it needs (`BEGIN IMMEDIATE`): one that reads first and asks for the
//! lock later can fail at once where another process writes too, however long it is willing to wait. With a server it is
//! the same: a write begins with a lock that all programs share, so that what a write has read stays true until it ends.

use super::database_location::{DatabaseLocation, make, wrong};
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

/// How long a call may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// The same for the management database on a server, which may be frozen while a caller waits for it. Whoever gives a
/// call a second hears from here why there is no answer.
#[cfg(not(test))]
pub(super) const SERVER_DEADLINE: Duration = Duration::from_millis(900);

/// In this crate's tests, many of which share one server and two processors. Those that are about deadlines say which.
#[cfg(test)]
pub(super) const SERVER_DEADLINE: Duration = Duration::from_secs(20);

/// Connections for reading a file.
const READERS: u32 = 4;

/// An open database with an up-to-date schema.
#[derive(Clone, Debug)]
pub(super) struct Database {
    writer: Arc<Line>,
    readers: Arc<Line>,
    turn: AdvisoryLock,
    deadline: Duration,
}

/// Connections for writes, or for reads.
#[derive(Debug)]
struct Line {
    place: DatabaseLocation,
    writes: bool,
    connection: Mutex<DatabaseConnection>,
    /// Who waits for one of them.
    queue: Queue,
    /// Another is to take its place. With SQLite, because a transaction on it did not end as it should, or nobody knows.
    /// Where SQLite has undone one by itself, because the disk failed it, the driver takes it for open, and whatever
    /// follows for a part of it that is never committed. With a server, because it did not answer in time.
    broken: AtomicBool,
}

impl Line {
    async fn open(
        place: &DatabaseLocation,
        writes: bool,
        deadline: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        let connection = match place {
            DatabaseLocation::File(file) => patiently(file, deadline, writes).await?,
            DatabaseLocation::Server(server) => server.connections(deadline, writes),
        };
        let connections = match place {
            _ if writes => 1,
            DatabaseLocation::File(_) => READERS,
            DatabaseLocation::Server(_) => server::READERS,
        };
        let (place, connection, queue) = (place.clone(), Mutex::new(connection), Queue::new(connections));
        Ok(Arc::new(Line { place, writes, connection, queue, broken: AtomicBool::new(false) }))
    }

    fn connection(&self) -> MutexGuard<'_, DatabaseConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections that are to be used now.
    async fn sound(&self, deadline: Duration) -> Result<DatabaseConnection, StoreError> {
        if self.broken.swap(false, Ordering::AcqRel)
            && let Err(error) = self.renew(deadline).await
        {
            self.broken.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(self.connection().clone())
    }

    /// Puts a new connection in the place of the broken one.
    async fn renew(&self, deadline: Duration) -> Result<(), StoreError> {
        let fresh = match &self.place {
            DatabaseLocation::File(file) => {
                // It is closed first: it may hold the lock.
                let old = self.connection().clone();
                let closed = async { Ok(old.close_by_ref().await?) };
                if let Err::<_, StoreError>(error) = within(deadline, closed).await {
                    tracing::debug!(%error, "a broken connection did not end cleanly");
                }
                patiently(file, deadline, self.writes).await?
            }
            // Whoever still waits on the others does so to its own deadline; they end with the last of them.
            DatabaseLocation::Server(server) => server.connections(deadline, self.writes),
        };
        *self.connection() = fresh;
        Ok(())
    }
}

/// One of a line's connections, which a call has.
struct Lent {
    line: Arc<Line>,
    deadline: Duration,
    /// None when the call has ended.
    place: Option<OwnedSemaphorePermit>,
}

impl Lent {
    fn give_back(mut self) {
        self.place = None;
    }
}

impl Drop for Lent {
    /// The call was given up before its end. A server goes on with a statement that nobody waits for, so the connection
    /// is free when that has ended; who comes next is not to take the wait for a server that does not answer.
    fn drop(&mut self) {
        let (Some(place), DatabaseLocation::Server(_)) = (self.place.take(), &self.line.place) else {
            return;
        };
        let Ok(runtime) = Handle::try_current() else { return };
        let (line, deadline) = (self.line.clone(), self.deadline);
        runtime.spawn(async move {
            let connections = line.connection().get_postgres_connection_pool().clone();
            if !matches!(tokio::time::timeout(deadline, connections.acquire()).await, Ok(Ok(_))) {
                line.broken.store(true, Ordering::Release);
            }
            drop(place);
        });
    }
}

/// Says that SQLite's connection is broken, unless the transaction on it is known to have ended. With a server, the
/// driver asks a connection whether it is sound before it lends it again.
struct Doubt<'a>(&'a Line);

impl Doubt<'_> {
    fn dispel(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let DatabaseLocation::File(_) = self.0.place {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

impl Database {
    /// Opens the database at `place`, making the file if it is missing, and brings its schema up to date. Its calls
    /// end after `deadline`, and its writes wait for their `turn` if others share the database.
    ///
    /// # Errors
    /// [`StoreError::File`], [`StoreError::Server`], [`StoreError::Unavailable`], and [`StoreError::Outdated`] if `migrate` is
    /// false and the schema is not up to date.
    pub(super) async fn open<M: MigratorTrait>(
        place: &DatabaseLocation,
        migrate: bool,
        turn: AdvisoryLock,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        match place {
            DatabaseLocation::File(file) if migrate => make(file)?,
            DatabaseLocation::File(file) if !fs::exists(file).unwrap_or(true) => {
                return Err(StoreError::Outdated(place.to_string()));
            }
            DatabaseLocation::File(_) => {}
            DatabaseLocation::Server(server) => within(deadline, server.try_out()).await?,
        }
        let writer = within(deadline, Line::open(place, true, deadline)).await?;
        let connection = writer.connection().clone();
        let pending = within(deadline, async {
            M::get_pending_migrations_read_only(&connection).await.map_err(|error| match (error, place) {
                // The only cause of this kind here: a migration is recorded that this program does not know.
                (DbErr::Custom(_), DatabaseLocation::File(file)) => wrong(file, NEWER),
                (DbErr::Custom(_), DatabaseLocation::Server(server)) => server.wrong(NEWER),
                (error, _) => error.into(),
            })
        })
        .await?;
        if !pending.is_empty() && !migrate {
            return Err(StoreError::Outdated(place.to_string()));
        }
        let readers = within(deadline, Line::open(place, false, deadline)).await?;
        let database = Database { writer, readers, turn, deadline };
        if !pending.is_empty() {
            // All in one transaction, so that two programs that start together do not both make the same table.
            // Rewriting a large table may take long, so there is no deadline once the lock is held.
            let transaction = within(deadline, database.begin()).await?;
            if let DatabaseLocation::Server(_) = place {
                transaction.execute_unprepared("SET LOCAL statement_timeout = 0").await?;
            }
            M::up(&transaction, None).await?;
            transaction.commit().await?;
            tracing::info!(database = %place, steps = pending.len(), "the schema was brought up to date");
        }
        Ok(database)
    }

    /// The server it is on, if it is on one.
    pub(super) fn server(&self) -> Option<&Server> {
        match &self.writer.place {
            DatabaseLocation::File(_) => None,
            DatabaseLocation::Server(server) => Some(server),
        }
    }

    /// Begins a write: it holds the lock from the first moment, and is rolled back unless it is committed.
    pub(super) async fn begin(&self) -> Result<DatabaseTransaction, StoreError> {
        let transaction = self.begin_unlocked().await?;
        if self.server().is_some() {
            self.turn.wait(&transaction).await?;
        }
        Ok(transaction)
    }

    async fn begin_unlocked(&self) -> Result<DatabaseTransaction, StoreError> {
        let immediate = Some(SqliteTransactionMode::Immediate);
        let options = TransactionOptions { sqlite_transaction_mode: immediate, ..Default::default() };
        let connection = self.writer.sound(self.deadline).await?;
        let doubt = Doubt(&self.writer);
        let begun = connection.begin_with_options(options).await;
        if begun.as_ref().map_or_else(is_busy, |_| true) {
            doubt.dispel();
        }
        Ok(begun?)
    }

    /// The same database, with another deadline for what is read at one moment.
    pub(super) fn patient(&self, deadline: Duration) -> Self {
        Database { deadline, ..self.clone() }
    }

    /// Reads, within the deadline. Nothing can be written by it.
    pub(super) async fn read<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let read = async { work(&self.readers.sound(self.deadline).await?).await };
        self.bounded(&self.readers, Box::pin(read)).await
    }

    /// Reads what stood there at one moment, within the deadline.
    pub(super) async fn look<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.read(async |database| {
            // SQLite shows every transaction the state at its first read, and knows no other level.
            let isolation = self.server().map(|_| IsolationLevel::RepeatableRead);
            let moment = database.begin_with_config(isolation, None).await.map_err(StoreError::from)?;
            work(&moment).await
        })
        .await
    }

    /// Does `work` in one transaction, within the deadline: all of it or nothing.
    pub(super) async fn transact<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let write = async { self.conclude(self.begin().await?, work).await };
        self.bounded(&self.writer, Box::pin(write)).await
    }

    /// The same for what any of several programs may do and one is enough: nobody waits for it, and where another is at
    /// it, there is nothing done: none.
    pub(super) async fn transact_alone<T, E: From<StoreError>>(
        &self,
        turn: AdvisoryLock,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let write = async {
            let transaction = self.begin_unlocked().await?;
            self.conclude(transaction, async |transaction| {
                if self.server().is_some() && !turn.take(transaction).await.map_err(StoreError::from)? {
                    return Ok(None);
                }
                work(transaction).await.map(Some)
            })
            .await
        };
        self.bounded(&self.writer, Box::pin(write)).await
    }

    /// Does `work` in `transaction`, and ends that.
    async fn conclude<T, E: From<StoreError>>(
        &self,
        transaction: DatabaseTransaction,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let doubt = Doubt(&self.writer);
        match work(&transaction).await {
            Ok(done) => {
                transaction.commit().await.map_err(StoreError::from)?;
                doubt.dispel();
                Ok(done)
            }
            Err(error) => {
                if transaction.rollback().await.is_ok() {
                    doubt.dispel();
                }
                Err(error)
            }
        }
    }

    /// `work`, when there is a connection of `line` for it, for which it waits half the deadline. It may take no longer
    /// than the deadline then: a machine that is stuck answers nothing, not even its own timeouts. What it has begun by
    /// then is rolled back. It is to be in a box, for it is large, and would be a part of everything that waits for a
    /// database.
    async fn bounded<T, E: From<StoreError>>(
        &self,
        line: &Arc<Line>,
        work: Pin<Box<impl Future<Output = Result<T, E>>>>,
    ) -> Result<T, E> {
        let place = line.queue.wait(self.deadline / 2).await?;
        let lent = Lent { line: line.clone(), deadline: self.deadline, place: Some(place) };
        let done = tokio::time::timeout(self.deadline, interrupt::while_waited_for(work)).await;
        lent.give_back();
        let Ok(done) = done else {
            if self.server().is_some() {
                // The server may be another by now, and the connections to the one before never say a word again.
                self.writer.broken.store(true, Ordering::Release);
                self.readers.broken.store(true, Ordering::Release);
            }
            return Err(StoreError::late(self.deadline).into());
        };
        done
    }

    /// Ends all connections, which folds the log into the file. Nobody waits longer than the deadline for what is
    /// still under way: it is committed or undone when the file is opened again.
    pub(super) async fn close(&self) {
        for line in [&self.readers, &self.writer] {
            let connections = line.connection().clone();
            let closed = async { Ok(connections.close_by_ref().await?) };
            if let Err::<_, StoreError>(error) = within(self.deadline, closed).await {
                tracing::warn!(%error, "database connections did not end cleanly");
            }
        }
    }
}

/// What is wrong with a database in which a migration is recorded that this program does not know.
const NEWER: &str = "was made by a newer version of this program";

async fn within<T, E: From<StoreError>>(
    deadline: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| Err(StoreError::late(deadline).into()))
}

/// [`connect`], tried again as long as the file is locked. Two programs that open a new file together are in each
/// other's way when both turn its log on, and SQLite does not wait by itself there.
async fn patiently(file: &Path, deadline: Duration, writes: bool) -> Result<DatabaseConnection, StoreError> {
    loop {
        match connect(file, deadline, writes).await {
            Ok(connection) => return Ok(connection),
            Err(error) if is_busy(&error) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(wrong(file, &format!("cannot be opened: {error}"))),
        }
    }
}

async fn connect(file: &Path, deadline: Duration, writes: bool) -> Result<DatabaseConnection, DbErr> {
    let file = file.to_owned();
    // The file is set below: in a URL its name would be read as one.
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
        .map_sqlx_sqlite_pool_opts(interrupt::given_up_statements)
        .map_sqlx_sqlite_opts(move |sqlite| {
            let sqlite = sqlite
                .filename(&file)
                .create_if_missing(false)
                .journal_mode(SqliteJournalMode::Wal)
                // What was acknowledged survives a loss of power. A shipment of usage too: the gateway removes its
                // journal after it.
                .synchronous(SqliteSynchronous::Full)
                .foreign_keys(true)
                // SQLite is to give up before we do, so that nobody waits any more when the deadline is over.
                .busy_timeout(deadline.mul_f32(0.8));
            if writes { sqlite } else { sqlite.pragma("query_only", "ON") }
        });
    sea_orm::Database::connect(options).await
}

#[cfg(test)]
#[cfg(have_postgres)]
mod on_server;
#[cfg(test)]
mod tests;

//! Errors of a database.

use sea_orm::sqlx::Error as SqlxError;
use sea_orm::sqlx::postgres::PgDatabaseError;
use sea_orm::{DbErr, RuntimeErr};
use std::error::Error;
use std::time::Duration;

/// The reason why the database did not execute a statement.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It did not answer in time, or cannot be read or written at the moment. A later try may succeed. A write that
    /// ends like this may have been committed nevertheless, because it can be too late to cancel it.
    #[error("the database cannot be reached now: {0}")]
    Unavailable(String),
    /// Nothing with this identifier exists, or it belongs to another tenant.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// Something else has this value, which must be unique.
    #[error("there is already a {what} with this {value}")]
    Taken {
        /// What exists already.
        what: &'static str,
        /// The property that both would share.
        value: &'static str,
    },
    /// It was decided before and cannot be decided again.
    #[error("this {0} has been decided already")]
    Decided(&'static str),
    /// Its current state does not allow this; the text says why.
    #[error("{0}")]
    WrongState(&'static str),
    /// It has another version than the write expects, because somebody changed it.
    #[error("it has been changed meanwhile")]
    Changed,
    /// The permitted number has been reached.
    #[error("{0}")]
    Full(String),
    /// A usage query that would read more than can be answered in time; the text says how to narrow it.
    #[error("{0}")]
    TooWide(String),
    /// This tenant has too many usage queries running: another would wait too long.
    #[error("too many questions about usage at a time")]
    Busy,
    /// A number that exceeds what the database can store.
    #[error("{0} must be at most 9223372036854775807")]
    TooLarge(&'static str),
    /// `database.url` names nothing that can be opened. The text does not repeat the URL.
    #[error("database.url: {0}")]
    Url(String),
    /// The file cannot be opened or created.
    #[error("{file}: {why}")]
    File {
        /// The database file.
        file: String,
        /// Why not.
        why: String,
    },
    /// The server cannot be used as it is: it refuses the login, the database does not exist, or the like.
    #[error("{server}: {why}")]
    Server {
        /// Its address and the name of the database.
        server: String,
        /// Why not.
        why: String,
    },
    /// The schema is older than this program, and `database.migrate` is off.
    #[error("{0}: the schema is not up to date: run rpcgate-admin migrate, or set database.migrate = true")]
    Outdated(String),
    /// The database holds a value that this program cannot have written.
    #[error("the database holds a {what} that cannot be read: {value:?}")]
    Unreadable {
        /// The expected value.
        what: &'static str,
        /// The value found.
        value: String,
    },
    /// Any other error that the database reports.
    #[error("the database reports an error: {0}")]
    Sql(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    pub(super) fn late(deadline: Duration) -> Self {
        StoreError::Unavailable(format!("no answer within {deadline:?}"))
    }
}

/// Why the removal of old rows ended before all of them were removed.
#[derive(Debug)]
pub(super) enum RemovalStopped {
    /// Another program is removing them and will do the rest.
    LockHeld,
    /// The database reported an error.
    Failed(StoreError),
}

impl RemovalStopped {
    /// Treats a removal that another program continues as a success.
    pub(super) fn failed(ended: Result<(), RemovalStopped>) -> Result<(), StoreError> {
        match ended {
            Ok(()) | Err(RemovalStopped::LockHeld) => Ok(()),
            Err(RemovalStopped::Failed(error)) => Err(error),
        }
    }
}

impl From<StoreError> for RemovalStopped {
    fn from(error: StoreError) -> Self {
        RemovalStopped::Failed(error)
    }
}

impl From<DbErr> for StoreError {
    fn from(error: DbErr) -> Self {
        if is_unavailable(&error) {
            StoreError::Unavailable(error.to_string())
        } else {
            StoreError::Sql(Box::new(error))
        }
    }
}

// SQLite's result codes. The higher bytes only refine the lowest one.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const IO: u32 = 10;
const FULL: u32 = 13;
const NO_OPEN: u32 = 14;

/// Prefixes of PostgreSQL's error codes for failures that say nothing about the statement, or that another attempt
/// may not meet: connections, resources, an operator's intervention (which includes a statement timeout), system
/// errors; a lock that could not be had, a serialization failure, a deadlock, an idle transaction that was ended, a
/// server that is read-only because another has taken its place.
const UNAVAILABLE: [&str; 9] = ["08", "53", "57", "58", "55P03", "40001", "40P01", "25P03", "25006"];

/// PostgreSQL's code for a lock timeout.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// Whether an error says that another connection holds a lock.
pub(super) fn is_busy(error: &DbErr) -> bool {
    match cause(error).and_then(code) {
        Some(Code::Sqlite(code)) => matches!(code, BUSY | LOCKED),
        Some(Code::Postgres(code)) => code == LOCK_NOT_AVAILABLE,
        None => false,
    }
}

/// Whether an error is about reaching the database rather than about the statement.
pub(super) fn is_unavailable(error: &DbErr) -> bool {
    let Some(cause) = cause(error) else { return matches!(error, DbErr::ConnectionAcquire(_)) };
    match cause {
        SqlxError::Io(_)
        | SqlxError::Tls(_)
        | SqlxError::PoolTimedOut
        | SqlxError::PoolClosed
        | SqlxError::WorkerCrashed => true,
        other => match code(other) {
            Some(Code::Sqlite(code)) => matches!(code, BUSY | LOCKED | READ_ONLY | IO | FULL | NO_OPEN),
            Some(Code::Postgres(code)) => UNAVAILABLE.iter().any(|prefix| code.starts_with(prefix)),
            None => false,
        },
    }
}

/// The columns whose values exist already, as PostgreSQL names them: `Key (hash)=(…) already exists.`
pub(super) fn columns_of(error: &DbErr) -> Option<&str> {
    let SqlxError::Database(error) = cause(error)? else { return None };
    let detail = error.try_downcast_ref::<PgDatabaseError>()?.detail()?;
    Some(detail.split_once('(')?.1.split_once(")=(")?.0)
}

fn cause(error: &DbErr) -> Option<&SqlxError> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(cause))
        | DbErr::Exec(RuntimeErr::SqlxError(cause))
        | DbErr::Query(RuntimeErr::SqlxError(cause)) => Some(cause),
        _ => None,
    }
}

/// The code that a database gives an error.
enum Code<'e> {
    Sqlite(u32),
    Postgres(&'e str),
}

fn code(cause: &SqlxError) -> Option<Code<'_>> {
    let SqlxError::Database(error) = cause else { return None };
    if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
        return Some(Code::Postgres(error.code()));
    }
    error.code()?.parse::<u32>().ok().map(|code| Code::Sqlite(code & 0xff))
}

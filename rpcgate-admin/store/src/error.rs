//! Errors of a database.

use sea_orm::sqlx::Error as SqlxError;
use sea_orm::sqlx::postgres::PgDatabaseError;
use sea_orm::{DbErr, RuntimeErr};
use std::error::Error;
use std::time::Duration;

/// The reason why the database did not execute a statement.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database did not answer in time, or cannot be read or written at the moment. A retry may succeed. The write
    /// may have been committed nevertheless, because it can be too late to cancel it.
    #[error("the database cannot be reached now: {0}")]
    Unavailable(String),
    /// No object with this identifier exists, or it belongs to another tenant.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// A unique value is already in use.
    #[error("there is already a {what} with this {value}")]
    Taken {
        /// The existing object.
        what: &'static str,
        /// The property that both would share.
        value: &'static str,
    },
    /// It was already decided.
    #[error("this {0} has been decided already")]
    Decided(&'static str),
    /// The current state does not allow this; the text gives the reason.
    #[error("{0}")]
    WrongState(&'static str),
    /// Another write changed the version that this write expects.
    #[error("it was changed in the meantime")]
    Changed,
    /// The permitted number is reached.
    #[error("{0}")]
    Full(String),
    /// A usage query that would read more than can be answered in time; the text explains how to narrow it.
    #[error("{0}")]
    TooWide(String),
    /// The tenant has too many usage queries running, so another would wait too long.
    #[error("too many questions about usage at a time")]
    Busy,
    /// A number beyond the range of the database.
    #[error("{0} must be at most 9223372036854775807")]
    TooLarge(&'static str),
    /// `database.url` is invalid. The text does not repeat the URL.
    #[error("database.url: {0}")]
    Url(String),
    /// The file cannot be opened or created.
    #[error("{file}: {why}")]
    File {
        /// The database file.
        file: String,
        /// The reason.
        why: String,
    },
    /// The server cannot be used, for example because it refuses the login or the database does not exist.
    #[error("{server}: {why}")]
    Server {
        /// Its address and the name of the database.
        server: String,
        /// The reason.
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

#[derive(Debug)]
pub(super) enum RemovalStopped {
    /// Another program is removing them.
    LockHeld,
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
        match error {
            // The value of a column cannot be converted to the type of its field.
            DbErr::TryIntoErr { into, source, .. } => {
                StoreError::Unreadable { what: into, value: source.to_string() }
            }
            error if is_unavailable(&error) => StoreError::Unavailable(error.to_string()),
            error => StoreError::Sql(Box::new(error)),
        }
    }
}

// SQLite's result codes; the higher bytes refine the lowest one.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const IO: u32 = 10;
const FULL: u32 = 13;
const NO_OPEN: u32 = 14;

/// Prefixes of PostgreSQL error codes for failures that do not concern the statement or that a retry may avoid:
/// connections, resources, operator intervention (which includes a statement timeout), system errors, an unavailable
/// lock, a serialization failure, a deadlock, an idle transaction that was ended, a read-only server after a failover.
const UNAVAILABLE: [&str; 9] = ["08", "53", "57", "58", "55P03", "40001", "40P01", "25P03", "25006"];

const LOCK_NOT_AVAILABLE: &str = "55P03";

pub(super) fn is_busy(error: &DbErr) -> bool {
    match cause(error).and_then(code) {
        Some(Code::Sqlite(code)) => matches!(code, BUSY | LOCKED),
        Some(Code::Postgres(code)) => code == LOCK_NOT_AVAILABLE,
        None => false,
    }
}

/// Reports whether the database could not be reached, as opposed to an error in the statement.
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

/// Returns the columns whose values already exist, from PostgreSQL's detail text: `Key (hash)=(…) already exists.`
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

//! What can go wrong with a database.

use sea_orm::sqlx::Error as SqlxError;
use sea_orm::sqlx::postgres::PgDatabaseError;
use sea_orm::{DbErr, RuntimeErr};
use std::error::Error;
use std::time::Duration;

/// Why the database did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It did not answer in time, or cannot be read or written at the moment. Asking again later may help. A write
    /// that ends like this may have been done nevertheless: it can be too late to call it back.
    #[error("the database cannot be reached now: {0}")]
    Unavailable(String),
    /// There is nothing with this identifier, or it is another tenant's.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// Something else has this value, which is to be unique.
    #[error("there is already a {what} with this {value}")]
    Taken {
        /// What there is already.
        what: &'static str,
        /// What it has in common with the new one.
        value: &'static str,
    },
    /// It was decided before, and is not decided twice.
    #[error("this {0} has been decided already")]
    Decided(&'static str),
    /// There are as many as there may be.
    #[error("{0}")]
    Full(String),
    /// A question about usage that reads more than is answered in time: what to narrow.
    #[error("{0}")]
    TooWide(String),
    /// So many questions of this tenant are under way that another would wait too long.
    #[error("too many questions about usage at a time")]
    Busy,
    /// A number that the database has no room for.
    #[error("{0} must be at most 9223372036854775807")]
    TooLarge(&'static str),
    /// `database.url` names nothing that can be opened. The text does not repeat the URL.
    #[error("database.url: {0}")]
    Url(String),
    /// The file cannot be opened or made.
    #[error("{file}: {why}")]
    File {
        /// The database file.
        file: String,
        /// Why not.
        why: String,
    },
    /// The server cannot be used as it is: it refuses the login, there is no such database, or the like.
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
    /// Something is stored that this program cannot have written.
    #[error("the database holds a {what} that cannot be read: {value:?}")]
    Unreadable {
        /// What was looked for.
        what: &'static str,
        /// What was found.
        value: String,
    },
    /// Anything else the database reports.
    #[error("the database reports an error: {0}")]
    Sql(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    pub(super) fn late(deadline: Duration) -> Self {
        StoreError::Unavailable(format!("no answer within {deadline:?}"))
    }
}

/// Why removing what is old ends before all of it is removed.
#[derive(Debug)]
pub(super) enum Leave {
    /// Another program is at it, and does the rest.
    Another,
    /// The database did not do it.
    Failed(StoreError),
}

impl Leave {
    /// What of it is an error.
    pub(super) fn failed(ended: Result<(), Leave>) -> Result<(), StoreError> {
        match ended {
            Ok(()) | Err(Leave::Another) => Ok(()),
            Err(Leave::Failed(error)) => Err(error),
        }
    }
}

impl From<StoreError> for Leave {
    fn from(error: StoreError) -> Self {
        Leave::Failed(error)
    }
}

impl From<DbErr> for StoreError {
    fn from(error: DbErr) -> Self {
        if is_away(&error) {
            StoreError::Unavailable(error.to_string())
        } else {
            StoreError::Sql(Box::new(error))
        }
    }
}

// SQLite's result codes: what stands above the lowest byte only says more of the same.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const IO: u32 = 10;
const FULL: u32 = 13;
const NO_OPEN: u32 = 14;

/// What PostgreSQL's error codes begin with that speak of the way to the database, or of what another attempt may find
/// changed: connections, resources, an operator's intervention (a statement that took too long is one), the system
/// around it; a lock that was not to be had, a transaction that got in another's way or was idle for too long, a server
/// that takes no writes because another has taken its place.
const AWAY: [&str; 9] = ["08", "53", "57", "58", "55P03", "40001", "40P01", "25P03", "25006"];

/// PostgreSQL's code of a lock that was not to be had in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// Whether an error says that somebody else holds a lock.
pub(super) fn is_busy(error: &DbErr) -> bool {
    match cause(error).and_then(code) {
        Some(Code::Sqlite(code)) => matches!(code, BUSY | LOCKED),
        Some(Code::Postgres(code)) => code == LOCK_NOT_AVAILABLE,
        None => false,
    }
}

/// Whether an error speaks of the way to the database rather than of what was asked.
pub(super) fn is_away(error: &DbErr) -> bool {
    let Some(cause) = cause(error) else { return matches!(error, DbErr::ConnectionAcquire(_)) };
    match cause {
        SqlxError::Io(_)
        | SqlxError::Tls(_)
        | SqlxError::PoolTimedOut
        | SqlxError::PoolClosed
        | SqlxError::WorkerCrashed => true,
        other => match code(other) {
            Some(Code::Sqlite(code)) => matches!(code, BUSY | LOCKED | READ_ONLY | IO | FULL | NO_OPEN),
            Some(Code::Postgres(code)) => AWAY.iter().any(|away| code.starts_with(away)),
            None => false,
        },
    }
}

/// The columns whose values are there already, as PostgreSQL tells them: `Key (hash)=(…) already exists.`
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

/// What a database calls an error.
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

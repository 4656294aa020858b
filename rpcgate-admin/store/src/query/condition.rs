//! The state of a database for operators: its version, its clock, and whether it takes writes.

use super::value::time;
use crate::connect::Database;
use crate::database_location::DatabaseLocation;
use crate::{Store, StoreError, UsageStore};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement};
use std::path::PathBuf;

/// The software and clock of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatabaseCondition {
    /// Its software and version.
    pub software: String,
    /// The time by the clock of its server; `None` for a file.
    pub now: Option<Time>,
}

/// A query that tells if a server is a standby, and if the user may change this table.
const MAY_WRITE: &str = "SELECT pg_is_in_recovery(), has_table_privilege($1, 'INSERT') \
                         AND has_table_privilege($1, 'UPDATE') AND has_table_privilege($1, 'DELETE')";

const POSTGRES: &str = "SELECT current_setting('server_version'), \
                        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

impl Store {
    /// Returns the software and clock of the database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn condition(&self) -> BoxFuture<'_, Result<DatabaseCondition, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                if database.get_database_backend() == DbBackend::Postgres {
                    let row = Statement::from_string(DbBackend::Postgres, POSTGRES);
                    let row = database.query_one_raw(row).await?.ok_or_else(no_answer)?;
                    let version: String = row.try_get_by_index(0)?;
                    let now = Some(time(row.try_get_by_index(1)?));
                    return Ok(DatabaseCondition { software: format!("PostgreSQL {version}"), now });
                }
                let row = Statement::from_string(DbBackend::Sqlite, "SELECT sqlite_version()");
                let row = database.query_one_raw(row).await?.ok_or_else(no_answer)?;
                let version: String = row.try_get_by_index(0)?;
                Ok(DatabaseCondition { software: format!("SQLite {version}"), now: None })
            })
            .await
        })
    }

    /// Begins a write and changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] gives the reason why the database takes no writes.
    pub fn try_write(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(try_write(&self.database, "tenants"))
    }
}

impl UsageStore {
    /// Begins a write and changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] gives the reason why the database takes no writes.
    pub fn try_write(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(try_write(&self.database, "rollups"))
    }
}

/// Returns the files of the management and usage databases at `url`; `None` for a server.
///
/// # Errors
/// [`StoreError::Url`].
pub fn files_of(url: &str) -> Result<Option<[PathBuf; 2]>, StoreError> {
    let location = DatabaseLocation::parse(url)?;
    let usage = location.usage();
    Ok(match (location, usage) {
        (DatabaseLocation::File(file), DatabaseLocation::File(usage)) => Some([file, usage]),
        _ => None,
    })
}

/// SQLite takes the lock for writes at the start of a transaction. On a server, this also checks that the user may
/// change `table`.
async fn try_write(database: &Database, table: &str) -> Result<(), StoreError> {
    database
        .transact(async |transaction: &DatabaseTransaction| {
            let Some(server) = database.server() else { return Ok(()) };
            let row = Statement::from_sql_and_values(DbBackend::Postgres, MAY_WRITE, [table.into()]);
            let row = transaction.query_one_raw(row).await?.ok_or_else(no_answer)?;
            let (is_standby, may): (bool, bool) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
            match (is_standby, may) {
                (true, _) => Err(server.refused("is a standby, which takes no writes")),
                (false, false) => {
                    Err(server.refused(&format!("does not let this user change the table {table}")))
                }
                (false, true) => Ok(()),
            }
        })
        .await
}

fn no_answer() -> DbErr {
    DbErr::RecordNotFound("a question about the server has no answer".into())
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "condition/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;

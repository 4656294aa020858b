//! Moves all data between two pairs of databases: from SQLite files to a PostgreSQL server, back, or to databases of
//! the same kind.
//!
//! The tables are those of the migrations, so no table can be forgotten ([`schema`]). Rows are read from one snapshot,
//! in pages in key order, and written in one transaction for each database. It is committed once the target has been
//! read back with the same counts and checksums.

mod cells;
mod in_use;
mod numbering;
mod pages;
mod schema;
mod shape;
#[cfg(test)]
mod tests;

use super::connect::{DEADLINE, Database, server_deadline};
use super::database_location::DatabaseLocation;
use super::error::StoreError;
use super::migration::{Management, Usage};
use super::server::AdvisoryLock;
use super::{Store, UsageStore};
use cells::TableSum;
use rpcgate_core::clock::Time;
use schema::Schema;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};
use sea_orm_migration::MigratorTrait;
use shape::TableShape;
use std::cell::Cell;
use std::time::Duration;

const WHOLE: Duration = Duration::from_secs(86_400);

/// The rows that were moved of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MovedTable {
    /// The name of the table.
    pub name: String,
    /// The number of rows, the same in both databases.
    pub rows: u64,
    /// The checksum of the rows, the same in both databases whatever their kinds.
    pub checksum: String,
}

/// The reason why nothing was moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A program uses the source.
    #[error(
        "{0}. Stop all gateways and services first, and wait a minute: what they write now would be lost. With --force the \
         data is moved as it is at this moment"
    )]
    InUse(String),
    /// The target holds data.
    #[error("the target is not empty: its table {0} has rows. Name a database without data")]
    NotEmpty(String),
    /// Source and target are the same database.
    #[error("source and target are the same database")]
    Same,
    /// The written data differs from the data that was read, so it was not kept.
    #[error("the table {0} differs after it was moved: nothing was kept")]
    Differs(String),
    /// The usage was moved, but the rest was not.
    #[error(
        "the usage was moved, but the rest was not: {0}. Empty the target (drop and create the database again, or remove both \
         files) and begin again"
    )]
    Half(String),
    /// A database failed. Nothing was moved.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DbErr> for TransferError {
    fn from(error: DbErr) -> Self {
        TransferError::Store(error.into())
    }
}

/// Moves the management database and the usage database at `from` (as in `database.url`) to `to`, which must hold no
/// data yet. The schema of `from` must be up to date; that of `to` is created. Unless `force`, refuses a source that
/// programs use at `now`. Calls `began` with the name of each table that is read.
///
/// Moves all or nothing, except for [`TransferError::Half`].
///
/// # Errors
/// [`TransferError`].
pub async fn transfer(
    from: &str,
    to: &str,
    force: bool,
    now: Time,
    began: impl Fn(&str),
) -> Result<Vec<MovedTable>, TransferError> {
    let source = DatabaseLocation::parse(from)?;
    let target = DatabaseLocation::parse(to)?;
    if same(&source, &target) {
        return Err(TransferError::Same);
    }
    if !force {
        in_use::refuse_connected(&source).await?;
    }
    // Opened with the usual deadlines first, so that a server that does not answer is noticed soon.
    let store = Store::open(from, false).await?;
    let found = if force { Ok(()) } else { in_use::refuse_reporting(&store, now).await };
    store.close().await;
    found?;
    UsageStore::open(from, false).await?.close().await;
    Store::open(to, true).await?.close().await;
    UsageStore::open(to, true).await?.close().await;
    let management = Schema::of::<Management>().await?;
    let usage = Schema::of::<Usage>().await?;
    let source = Pair::open(&source).await?;
    let target = Pair::open(&target).await?;
    let moved = source.move_to(&target, &management, &usage, &began).await;
    source.close().await;
    target.close().await;
    moved
}

fn same(a: &DatabaseLocation, b: &DatabaseLocation) -> bool {
    match (a, b) {
        (DatabaseLocation::File(a), DatabaseLocation::File(b)) => {
            let real =
                |file: &std::path::Path| std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
            real(a) == real(b)
        }
        _ => a.to_string() == b.to_string(),
    }
}

struct Pair {
    management: Database,
    usage: Database,
}

impl Pair {
    async fn open(location: &DatabaseLocation) -> Result<Self, StoreError> {
        Ok(Pair {
            management: open::<Management>(location, AdvisoryLock::Management).await?,
            usage: open::<Usage>(&location.usage(), AdvisoryLock::Usage).await?,
        })
    }

    async fn close(&self) {
        // The deadline of a transfer would be too long a wait for idle connections.
        for database in [&self.management, &self.usage] {
            database.with_deadline(DEADLINE.max(server_deadline())).close().await;
        }
    }

    async fn move_to(
        &self,
        target: &Pair,
        management: &Schema,
        usage: &Schema,
        began: &impl Fn(&str),
    ) -> Result<Vec<MovedTable>, TransferError> {
        let half = Cell::new(false);
        let done = self.management.snapshot(async |from| {
            let with_usage = self.usage.snapshot(async |usage_from| {
                let all = target.management.transact(async |to| {
                    let both = target.usage.transact(async |usage_to| {
                        check_empty(to, management).await?;
                        check_empty(usage_to, usage).await?;
                        let mut moved = copy(from, to, management, began).await?;
                        moved.extend(copy(usage_from, usage_to, usage, began).await?);
                        Ok::<_, TransferError>(moved)
                    });
                    let moved = both.await?;
                    half.set(true);
                    Ok::<_, TransferError>(moved)
                });
                all.await
            });
            with_usage.await
        });
        match done.await {
            Err(TransferError::Store(error)) if half.get() => Err(TransferError::Half(error.to_string())),
            done => done,
        }
    }
}

async fn open<M: MigratorTrait>(
    location: &DatabaseLocation,
    lock: AdvisoryLock,
) -> Result<Database, StoreError> {
    Database::open::<M>(location, false, lock, WHOLE).await
}

async fn check_empty(to: &DatabaseTransaction, schema: &Schema) -> Result<(), TransferError> {
    for table in &schema.tables {
        if !is_empty(to, table).await? {
            return Err(TransferError::NotEmpty(table.name.clone()));
        }
    }
    Ok(())
}

/// Copies all tables, and reads the written rows back to compare them.
async fn copy(
    from: &DatabaseTransaction,
    to: &DatabaseTransaction,
    schema: &Schema,
    began: &impl Fn(&str),
) -> Result<Vec<MovedTable>, TransferError> {
    let mut moved = Vec::with_capacity(schema.tables.len());
    for table in &schema.tables {
        began(&table.name);
        let sum = copy_table(from, to, table).await?;
        moved.push((table, sum));
    }
    for (table, sum) in &moved {
        if pages::sum(to, table).await? != *sum {
            return Err(TransferError::Differs(table.name.clone()));
        }
    }
    let moved = moved.into_iter().map(|(table, sum)| MovedTable {
        name: table.name.clone(),
        rows: sum.rows,
        checksum: sum.to_string(),
    });
    Ok(moved.collect())
}

/// Reports whether the table has only the rows that its migrations create.
async fn is_empty(to: &DatabaseTransaction, table: &TableShape) -> Result<bool, DbErr> {
    if pages::page(to, table, None, 1).await?.is_empty() {
        return Ok(true);
    }
    Ok(table.initial.rows > 0 && pages::sum(to, table).await? == table.initial)
}

async fn copy_table(
    from: &DatabaseTransaction,
    to: &DatabaseTransaction,
    table: &TableShape,
) -> Result<TableSum, TransferError> {
    if table.initial.rows > 0 {
        to.execute_unprepared(&format!("DELETE FROM {}", table.quoted())).await?;
    }
    let mut sum = TableSum::default();
    let mut after = None;
    loop {
        let rows = pages::page(from, table, after.as_deref(), table.page_rows()).await?;
        let Some(last) = rows.last() else { break };
        after = Some(table.key_of(last));
        rows.iter().for_each(|row| sum.add(row));
        pages::insert(to, table, &rows).await?;
    }
    if let Some(column) = &table.numbered {
        numbering::carry(from, to, table, column).await?;
    }
    Ok(sum)
}

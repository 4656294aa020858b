//! Days of events. PostgreSQL keeps the blocks of each UTC day in a table of its own, a partition: what is too old is
//! dropped with its table, which is done at once whatever is in it and leaves nothing to clean up. SQLite has no
//! partitions, and one table.
//!
//! Blocks are told apart by their identifiers, which begin with the millisecond in which their first event came.

use crate::store::StoreError;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Block;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// The tables that have partitions.
const TABLES: [&str; 2] = ["block_keys", "blocks"];

/// How long a drop waits for those who read, while those who come later wait for it.
const PATIENCE: Duration = Duration::from_millis(200);

/// The millisecond in which a block was begun.
fn millis(block: u128) -> u64 {
    (block >> 80) as u64
}

const DAY: u64 = 86_400_000;

/// Where the identifiers of a day begin: what a bound of a partition says. None: behind the last that there can be.
fn first(day: u64) -> Option<Uuid> {
    let millis = u128::from(day.checked_mul(DAY)?);
    (millis >> 48 == 0).then(|| Uuid::from_u128(millis << 80))
}

/// The days of some blocks.
pub(super) fn of(blocks: &[Block]) -> BTreeSet<u64> {
    blocks.iter().map(|block| millis(block.id) / DAY).collect()
}

/// Sees to it that blocks of these days have a place.
pub(super) async fn prepare(
    transaction: &DatabaseTransaction,
    days: &BTreeSet<u64>,
) -> Result<(), StoreError> {
    if transaction.get_database_backend() != DbBackend::Postgres {
        return Ok(());
    }
    for day in days {
        if !is_there(transaction, *day).await? {
            make(transaction, *day).await?;
        }
    }
    Ok(())
}

async fn is_there(transaction: &DatabaseTransaction, day: u64) -> Result<bool, DbErr> {
    let sql = "SELECT to_regclass($1) IS NOT NULL";
    let table = format!("blocks_{day}");
    let ask = Statement::from_sql_and_values(DbBackend::Postgres, sql, [table.into()]);
    transaction.query_one_raw(ask).await?.map_or(Ok(false), |row| row.try_get_by_index(0))
}

/// Makes the tables of a day. They are made apart and attached then, which does not wait for anybody who reads or
/// writes other days.
async fn make(transaction: &DatabaseTransaction, day: u64) -> Result<(), DbErr> {
    let bound = |day| first(day).map_or_else(|| "MAXVALUE".to_owned(), |first| format!("'{first}'"));
    for table in TABLES {
        let sql = format!(
            "CREATE TABLE {table}_{day} (LIKE {table} INCLUDING ALL); \
             ALTER TABLE {table} ATTACH PARTITION {table}_{day} FOR VALUES FROM ({}) TO ({})",
            bound(day),
            bound(day + 1),
        );
        transaction.execute_unprepared(&sql).await?;
    }
    Ok(())
}

/// The oldest day that has tables, if it was over by `before`.
pub(super) async fn oldest(
    transaction: &DatabaseTransaction,
    before: Time,
) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT min(substring(part.relname FROM '^blocks_([0-9]+)$')::bigint) \
               FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid \
               WHERE inhparent = 'blocks'::regclass";
    let ask = Statement::from_string(DbBackend::Postgres, sql);
    let row = transaction.query_one_raw(ask).await?;
    let oldest: Option<i64> = row.map_or(Ok(None), |row| row.try_get_by_index(0))?;
    Ok(oldest.map(i64::unsigned_abs).filter(|day| *day < before.day()))
}

/// Drops the tables of a day: how many blocks there were.
pub(super) async fn drop_day(transaction: &DatabaseTransaction, day: u64) -> Result<u64, StoreError> {
    let count = Statement::from_string(DbBackend::Postgres, format!("SELECT count(*) FROM blocks_{day}"));
    let row = transaction.query_one_raw(count).await?;
    let blocks: i64 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
    let sql = format!(
        "SET LOCAL lock_timeout = {}; DROP TABLE {}",
        PATIENCE.as_millis(),
        TABLES.map(|table| format!("{table}_{day}")).join(", ")
    );
    transaction.execute_unprepared(&sql).await?;
    Ok(blocks.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_holds_the_identifiers_of_its_milliseconds() {
        let (from, to) = (first(20_000).unwrap().as_u128(), first(20_001).unwrap().as_u128());
        for (id, is_in) in [(from - 1, false), (from, true), (to - 1, true), (to, false)] {
            assert_eq!(millis(id) / DAY == 20_000, is_in, "{id:x}");
        }
        assert_eq!((first(0), millis(u128::from(u64::MAX))), (Some(Uuid::nil()), 0));
        let last = millis(u128::MAX) / DAY;
        assert!(first(last).is_some() && first(last + 1).is_none(), "the last day has no end");
    }
}

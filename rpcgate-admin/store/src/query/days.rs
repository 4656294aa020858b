//! Daily partitions of events. PostgreSQL keeps the blocks of each UTC day in a separate partition. Old days are
//! removed by dropping their partitions, which is immediate whatever their size and leaves nothing to vacuum. SQLite
//! has no partitions and uses one table.
//!
//! Blocks are assigned to days by their identifiers, which begin with the millisecond of their first event's arrival.

use crate::StoreError;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Block;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

const TABLES: [&str; 2] = ["block_keys", "blocks"];

/// The time that a drop waits for readers, during which later readers wait for it.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

fn millis(block: u128) -> u64 {
    (block >> 80) as u64
}

const DAY: u64 = 86_400_000;

/// Returns the smallest identifier of a day, the lower bound of its partition, or `None` if the day is beyond all
/// identifiers.
fn first(day: u64) -> Option<Uuid> {
    let millis = u128::from(day.checked_mul(DAY)?);
    (millis >> 48 == 0).then(|| Uuid::from_u128(millis << 80))
}

pub(super) fn of(blocks: &[Block]) -> BTreeSet<u64> {
    blocks.iter().map(|block| millis(block.id) / DAY).collect()
}

pub(super) async fn prepare(
    transaction: &DatabaseTransaction,
    days: &BTreeSet<u64>,
) -> Result<(), StoreError> {
    if transaction.get_database_backend() != DbBackend::Postgres {
        return Ok(());
    }
    for day in days {
        if !exists(transaction, *day).await? {
            create(transaction, *day).await?;
        }
    }
    Ok(())
}

/// Creates the missing partitions for rows of `table` that belong to the blocks `ids`.
pub(crate) async fn prepare_for(
    transaction: &DatabaseTransaction,
    table: &str,
    ids: impl Iterator<Item = u128>,
) -> Result<(), StoreError> {
    if !TABLES.contains(&table) {
        return Ok(());
    }
    prepare(transaction, &ids.map(|id| millis(id) / DAY).collect()).await
}

async fn exists(transaction: &DatabaseTransaction, day: u64) -> Result<bool, DbErr> {
    let sql = "SELECT to_regclass($1) IS NOT NULL";
    let table = format!("blocks_{day}");
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, sql, [table.into()]);
    transaction.query_one_raw(statement).await?.map_or(Ok(false), |row| row.try_get_by_index(0))
}

/// Creates the partitions of a day as separate tables and then attaches them, which does not wait for readers or
/// writers of other days.
async fn create(transaction: &DatabaseTransaction, day: u64) -> Result<(), DbErr> {
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

pub(super) async fn oldest(
    transaction: &DatabaseTransaction,
    before: Time,
) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT min(substring(part.relname FROM '^blocks_([0-9]+)$')::bigint) \
               FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid \
               WHERE inhparent = 'blocks'::regclass";
    let statement = Statement::from_string(DbBackend::Postgres, sql);
    let row = transaction.query_one_raw(statement).await?;
    let oldest: Option<i64> = row.map_or(Ok(None), |row| row.try_get_by_index(0))?;
    Ok(oldest.map(i64::unsigned_abs).filter(|day| *day < before.day()))
}

pub(super) async fn drop_day(transaction: &DatabaseTransaction, day: u64) -> Result<u64, StoreError> {
    let count = Statement::from_string(DbBackend::Postgres, format!("SELECT count(*) FROM blocks_{day}"));
    let row = transaction.query_one_raw(count).await?;
    let blocks: i64 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
    let sql = format!(
        "SET LOCAL lock_timeout = {}; DROP TABLE {}",
        LOCK_TIMEOUT.as_millis(),
        TABLES.map(|table| format!("{table}_{day}")).join(", ")
    );
    transaction.execute_unprepared(&sql).await?;
    Ok(blocks.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifiers_of_a_day_are_those_of_its_milliseconds() {
        let from = first(20_000).unwrap().as_u128();
        let to = first(20_001).unwrap().as_u128();
        for (id, is_in) in [(from - 1, false), (from, true), (to - 1, true), (to, false)] {
            assert_eq!(millis(id) / DAY == 20_000, is_in, "{id:x}");
        }
        assert_eq!((first(0), millis(u128::from(u64::MAX))), (Some(Uuid::nil()), 0));
        let last = millis(u128::MAX) / DAY;
        assert!(first(last).is_some() && first(last + 1).is_none(), "the last day has no end");
    }
}

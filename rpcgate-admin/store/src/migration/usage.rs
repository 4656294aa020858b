//! The tables of the usage database, with what their entities do not say: indexes and storage.

use super::tables::{EntityTable, table, table_with};
use crate::entity::{
    block_keys, blocks, daily_requests, ledger, marks, minute_refusals, notifications, rollups, spikes,
    summed, sums,
};
use sea_orm::sea_query::{ColumnDef, Query};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};
use sea_orm_migration::SchemaManager;
use uuid::Uuid;

/// Columns of texts by which usage is grouped.
const GROUPED: [&str; 2] = ["chain", "method"];

/// Returns the tables in the order of their creation.
pub(super) fn tables(backend: DbBackend) -> Vec<EntityTable> {
    // Every database sorts these by their bytes.
    let bytewise = |column: &mut ColumnDef| {
        if backend == DbBackend::Postgres && GROUPED.contains(&column.get_column_name().as_str()) {
            column.extra("COLLATE \"C\"");
        }
    };
    vec![
        table_with(backend, rollups::Entity, bytewise).stored_by_key(),
        table(backend, blocks::Entity).index("blocks_by_last", &["last"]).partitioned_by("id"),
        table(backend, block_keys::Entity)
            .index("block_keys_of_key", &["tenant", "key", "last"])
            .index("block_keys_of_tenant", &["tenant", "last"])
            .partitioned_by("block")
            .stored_by_key(),
        table(backend, marks::Entity).index("marks_by_hour", &["hour"]).stored_by_key(),
        table(backend, daily_requests::Entity).stored_by_key(),
        table(backend, minute_refusals::Entity).stored_by_key(),
        table(backend, spikes::Entity).stored_by_key(),
        table(backend, notifications::Entity)
            .index("notifications_by_mail", &["mailed_at"])
            .index("notifications_by_time", &["at"])
            .index("notifications_of_tenant", &["tenant", "at"])
            .unique("notifications_once", &["tenant", "notice", "since"]),
        table_with(backend, sums::Entity, bytewise).stored_by_key(),
        table(backend, summed::Entity),
        table_with(backend, ledger::Entity, bytewise).index("ledger_by_hour", &["hour"]).stored_by_key(),
    ]
}

/// Adds what follows the tables: the position of the sums, and how PostgreSQL stores blocks.
pub(super) async fn complete(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let database = manager.get_connection();
    let mut start = Query::insert();
    start
        .into_table("summed")
        .columns(["id", "hour", "tenant", "first"])
        .values([0i16.into(), 0i64.into(), Uuid::nil().into(), 0i64.into()])
        .map_err(|error| DbErr::Migration(error.to_string()))?;
    database.execute(&start).await?;
    if database.get_database_backend() == DbBackend::Postgres {
        // The bytes are already compressed, so the server need not try.
        let stored = "ALTER TABLE blocks ALTER COLUMN bytes SET STORAGE EXTERNAL";
        database.execute_unprepared(stored).await?;
    }
    Ok(())
}

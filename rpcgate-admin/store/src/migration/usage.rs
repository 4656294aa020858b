//! Rollups, blocks of events, and marks.

use sea_orm::sea_query::{ColumnDef, Index, Table, TableCreateStatement};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, binary, integer, small_integer, text, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Usage;

impl MigrationName for Usage {
    fn name(&self) -> &'static str {
        "0001_usage"
    }
}

/// The counters of rollups in this migration. The list is fixed: a later counter gets its own migration.
pub(super) const METRICS: [&str; 14] = [
    "requests",
    "billed_requests",
    "billable_units",
    "errors",
    "rejected",
    "cache_hits",
    "request_bytes",
    "response_bytes",
    "ws_connections",
    "ws_refused",
    "ws_messages",
    "latency_us",
    "latency_count",
    "window_requests",
];

#[async_trait]
impl MigrationTrait for Usage {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let backend = manager.get_connection().get_database_backend();
        let mut names = Index::create();
        for name in ["hour", "tenant", "project", "key", "chain", "method", "transport", "status", "stream"] {
            names.col(name);
        }
        let mut rollups = Table::create()
            .table("rollups")
            .col(big_integer("hour"))
            .col(uuid("tenant"))
            .col(uuid("project"))
            .col(uuid("key"))
            .col(bytewise_text("chain", backend))
            .col(bytewise_text("method", backend))
            .col(small_integer("transport"))
            .col(integer("status"))
            .col(small_integer("stream"))
            .primary_key(&mut names)
            .take();
        for metric in METRICS {
            rollups.col(big_integer(metric));
        }
        let blocks = Table::create()
            .table("blocks")
            .col(uuid("id").primary_key())
            .col(big_integer("first"))
            .col(big_integer("last"))
            .col(big_integer("events"))
            .col(binary("bytes"))
            .take();
        let block_keys = Table::create()
            .table("block_keys")
            .col(uuid("block"))
            .col(uuid("tenant"))
            .col(uuid("project"))
            .col(uuid("key"))
            .col(big_integer("first"))
            .col(big_integer("last"))
            .primary_key(Index::create().col("block").col("tenant").col("project").col("key"))
            .take();
        let marks = Table::create()
            .table("marks")
            .col(uuid("gateway"))
            .col(uuid("segment"))
            .col(big_integer("position"))
            .primary_key(Index::create().col("gateway").col("segment"))
            .take();
        let [blocks, block_keys] =
            [(blocks, "id"), (block_keys, "block")].map(|(table, block)| by_day(table, block, backend));
        for table in [by_key(rollups, backend), blocks, by_key(block_keys, backend), by_key(marks, backend)] {
            manager.create_table(table).await?;
        }
        if backend == DbBackend::Postgres {
            // The bytes are already compressed, so the server need not try.
            let kept = "ALTER TABLE blocks ALTER COLUMN bytes SET STORAGE EXTERNAL";
            manager.get_connection().execute_unprepared(kept).await?;
        }
        for index in [
            Index::create().name("blocks_by_last").table("blocks").col("last").take(),
            Index::create().name("block_keys_of_tenant").table("block_keys").col("tenant").col("last").take(),
            Index::create()
                .name("block_keys_of_key")
                .table("block_keys")
                .col("tenant")
                .col("key")
                .col("last")
                .take(),
        ] {
            manager.create_index(index).await?;
        }
        Ok(())
    }
}

/// Builds a text column that every database sorts by its bytes.
pub(super) fn bytewise_text(name: &'static str, backend: DbBackend) -> ColumnDef {
    let mut column = text(name);
    if backend == DbBackend::Postgres {
        column.extra("COLLATE \"C\"");
    }
    column
}

/// Partitions a table by the UTC day of the block's identifier on PostgreSQL. Shipments create the partitions,
/// retention drops them.
fn by_day(mut table: TableCreateStatement, block: &str, backend: DbBackend) -> TableCreateStatement {
    if backend == DbBackend::Postgres {
        table.extra(format!("PARTITION BY RANGE ({block})"));
    }
    table
}

/// Makes SQLite store the rows in the tree of the primary key, because the key is most of the row. Other databases have
/// no such option.
pub(super) fn by_key(mut table: TableCreateStatement, backend: DbBackend) -> TableCreateStatement {
    if backend == DbBackend::Sqlite {
        table.extra("WITHOUT ROWID");
    }
    table
}

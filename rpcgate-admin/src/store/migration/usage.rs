//! Rollups, blocks of events, and marks.

use sea_orm::sea_query::{Index, Table, TableCreateStatement};
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
            .col(text("chain"))
            .col(text("method"))
            .col(small_integer("transport"))
            .col(integer("status"))
            .col(small_integer("stream"))
            .primary_key(&mut names)
            .take();
        for metric in [
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
        ] {
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
        for table in [by_key(rollups, backend), blocks, by_key(block_keys, backend), by_key(marks, backend)] {
            manager.create_table(table).await?;
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

/// Lets SQLite keep the rows of a table in the tree of its key, where the key is most of the row anyway. Elsewhere
/// there is nothing of the kind.
fn by_key(mut table: TableCreateStatement, backend: DbBackend) -> TableCreateStatement {
    if backend == DbBackend::Sqlite {
        table.extra("WITHOUT ROWID");
    }
    table
}

//! Nodes that operators have drained.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, text};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct DrainedNodes;

impl MigrationName for DrainedNodes {
    fn name(&self) -> &'static str {
        "0027_drained_nodes"
    }
}

#[async_trait]
impl MigrationTrait for DrainedNodes {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("drained_nodes")
            .col(text("chain"))
            .col(text("node"))
            .col(big_integer("drained_at"))
            .primary_key(Index::create().col("chain").col("node"))
            .take();
        manager.create_table(table).await
    }
}

//! The chain of each charge, a part of the ledger's key. It is empty for existing charges.

use super::usage::{by_key, bytewise_text};
use sea_orm::sea_query::{Index, Table};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, string, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct LedgerChain;

impl MigrationName for LedgerChain {
    fn name(&self) -> &'static str {
        "0006_ledger_chain"
    }
}

/// SQLite cannot change a primary key, so the rows move to a new table on both databases.
const MOVE: &str = "INSERT INTO ledger_with_chain (tenant, hour, project, chain, tier, price, calls, units) \
                    SELECT tenant, hour, project, '', tier, price, calls, units FROM ledger";

#[async_trait]
impl MigrationTrait for LedgerChain {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let database = manager.get_connection();
        let backend = database.get_database_backend();
        let mut key = Index::create();
        for name in ["tenant", "hour", "project", "chain", "tier", "price"] {
            key.col(name);
        }
        let ledger = Table::create()
            .table("ledger_with_chain")
            .col(uuid("tenant"))
            .col(big_integer("hour"))
            .col(uuid("project"))
            .col(bytewise_text("chain", backend))
            .col(string("tier"))
            .col(big_integer("price"))
            .col(big_integer("calls"))
            .col(big_integer("units"))
            .primary_key(&mut key)
            .take();
        manager.create_table(by_key(ledger, backend)).await?;
        database.execute_unprepared(MOVE).await?;
        manager.drop_table(Table::drop().table("ledger").take()).await?;
        let name = Table::rename().table("ledger_with_chain", "ledger").take();
        manager.rename_table(name).await?;
        let hours = Index::create().name("ledger_by_hour").table("ledger").col("hour").take();
        manager.create_index(hours).await
    }
}

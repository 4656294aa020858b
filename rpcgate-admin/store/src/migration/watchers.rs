//! The active watchers, which share the chains.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, text, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Watchers;

impl MigrationName for Watchers {
    fn name(&self) -> &'static str {
        "0040_watchers"
    }
}

#[async_trait]
impl MigrationTrait for Watchers {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("watchers")
            .col(uuid("id").primary_key())
            .col(text("chains"))
            .col(big_integer("seen_until"))
            .take();
        manager.create_table(table).await
    }
}

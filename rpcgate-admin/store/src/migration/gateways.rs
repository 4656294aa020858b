//! Gateways' reports.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, text, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Gateways;

impl MigrationName for Gateways {
    fn name(&self) -> &'static str {
        "0003_gateways"
    }
}

#[async_trait]
impl MigrationTrait for Gateways {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("gateways")
            .col(uuid("id").primary_key())
            .col(big_integer("seen_at"))
            .col(text("nodes"))
            .take();
        manager.create_table(table).await
    }
}

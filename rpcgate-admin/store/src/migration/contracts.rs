//! Figures that override those of a tenant's plan for a period.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, text, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Contracts;

impl MigrationName for Contracts {
    fn name(&self) -> &'static str {
        "0017_contracts"
    }
}

#[async_trait]
impl MigrationTrait for Contracts {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut tenant = reference("contracts", "tenant_id", "tenants");
        let table = Table::create()
            .table("contracts")
            .col(uuid("id").primary_key())
            .col(uuid("tenant_id"))
            .col(big_integer("starts_at"))
            .col(big_integer_null("ends_at"))
            .col(text("figures"))
            .col(text("note"))
            .col(big_integer("created_at"))
            .foreign_key(tenant.on_delete(ForeignKeyAction::Cascade))
            .take();
        manager.create_table(table).await?;
        let of_tenant =
            Index::create().name("contracts_of_tenant").table("contracts").col("tenant_id").take();
        manager.create_index(of_tenant).await
    }
}

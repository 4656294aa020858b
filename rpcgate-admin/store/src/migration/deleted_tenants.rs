//! The deletion time of a tenant, and the mark that only its invoices are left.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer_null, boolean};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct DeletedTenants;

impl MigrationName for DeletedTenants {
    fn name(&self) -> &'static str {
        "0022_deleted_tenants"
    }
}

#[async_trait]
impl MigrationTrait for DeletedTenants {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in [big_integer_null("deleted_at"), boolean("is_empty").default(false).take()] {
            manager.alter_table(Table::alter().table("tenants").add_column(column).take()).await?;
        }
        let index = Index::create().name("tenants_by_deletion").table("tenants").col("deleted_at").take();
        manager.create_index(index).await
    }
}
